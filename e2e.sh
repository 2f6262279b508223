ip netns add tx; ip netns add rx
ip link add v0 netns tx type veth peer name v1 netns rx
ip -n tx addr add 192.0.2.1/24 dev v0; ip -n rx addr add 192.0.2.2/24 dev v1
ip -n tx link set v0 mtu 4200 up; ip -n rx link set v1 mtu 4200 up; ip -n tx link set lo up
B=${B:-build/release-gcc}
run() { 
timeout 60 ip netns exec rx $B/xdp2roce recv --soft --listen 192.0.2.2 ${R:-} 2>/tmp/recv.log & 
while ! grep -q listening /tmp/recv.log 2>/dev/null; do sleep 0.05; done
timeout 60 ip netns exec tx $B/xdp2roce send --to 192.0.2.2 "$@" 2>&1 | tail -1
wait %1 ; tail -1 /tmp/recv.log; rm /tmp/recv.log
}
for p in ${P:-1024 2048 4096}; do for ring in ${RING:-64 256 512 1024}; do echo "pmtu $p ring $ring"; run --pattern --messages ${N:-512} --pmtu $p --ring $ring ${S:-}; done; 
for i in 1 2; do ip netns exec tx build/release-gcc/tests/bench/xsk_raw v0 $((p+74)) 200000; done
done
