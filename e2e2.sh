ip netns add tx; ip netns add rx
ip link add v0 netns tx type veth peer name v1 netns rx
ip -n tx addr add 192.0.2.1/24 dev v0; ip -n rx addr add 192.0.2.2/24 dev v1
ip -n tx link set v0 mtu 4200 up; ip -n rx link set v1 mtu 4200 up; ip -n tx link set lo up
B=${B:-build/release-gcc}
for i in $(seq 12); do
timeout 60 ip netns exec rx $B/xdp2roce recv --soft --listen 192.0.2.2 ${R:-} 2>/tmp/recv.log & 
while ! grep -q listening /tmp/recv.log 2>/dev/null; do sleep 0.05; done
timeout 60 ip netns exec tx $B/xdp2roce send --to 192.0.2.2 --pattern --messages 256 --json ${S:-} 2>/dev/null | tee /tmp/j | python3 -c "
import json,sys; j=json.load(sys.stdin); s=j['streams'][0]
print('%.2f Gbit/s'%(j['bytes']*8/j['seconds']/1e9), {k:s[k] for k in s if k in('retransmitted_frames','timeouts','stale_acks','acks','rnr_naks','window_wait_ns','source_wait_ns','credit_wait_ns','rnr_wait_ns')}, j['xdp'])"
wait %1 ; tail -1 /tmp/recv.log; rm /tmp/recv.log
done
ip netns exec rx nstat -az 2>/dev/null | grep -iE "drop|err" | grep -v " 0 "
ip -n tx -s link show v0; ip -n rx -s link show v1
