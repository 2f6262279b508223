/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs_device.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "verbs_gid.h"

#define DEVICES 64 /* looked at; more are ignored, */
#define GIDS 4096  /* and likewise */
#define LIST 256   /* bytes of a sentence that tell what there is */

/* The devices that could be opened, and the rows of all their GID tables. */
struct inventory {
	struct ibv_context *contexts[DEVICES];
	uint32_t devices;
	struct verbs_gid *gids;
	size_t gid_count;
};

static const char *ip_text(const uint8_t ip[16], char text[INET6_ADDRSTRLEN])
{
	if (IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)ip))
		inet_ntop(AF_INET, ip + 12, text, INET6_ADDRSTRLEN);
	else
		inet_ntop(AF_INET6, ip, text, INET6_ADDRSTRLEN);
	return text;
}

static void no_device(struct error *error)
{
	error_set(
		error, ENODEV,
		"there is no RDMA device here: install rdma-core and ibverbs-providers and load "
		"the driver of the NIC, or make one in software (modprobe rdma_rxe; rdma link add "
		"rxe0 type rxe netdev eth0), or receive without one by --soft");
}

/* libibverbs tells of a device file that it may not open as of one that is not there. */
static int cannot_open(const struct ibv_device *device, int code, struct error *error)
{
	const char *name = device->name;
	char path[128];

	snprintf(path, sizeof(path), "/dev/infiniband/%s", device->dev_name);
	if (faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS))
		code = errno;
	if (code == EACCES || code == EPERM)
		return error_set(error, code,
				 "no permission to open the RDMA device %s: run as root, or with "
				 "read and write access to %s",
				 name, path);
	return error_set(error, code, "the RDMA device %s cannot be opened (%s): %s", name, path,
			 strerror(code));
}

static void add_gid(struct inventory *inventory, uint32_t device, const struct ibv_gid_entry *entry)
{
	struct verbs_gid *gid = &inventory->gids[inventory->gid_count];

	/* An address vector names an index of one byte. */
	if (inventory->gid_count == GIDS || entry->gid_index > UINT8_MAX)
		return;
	*gid = (struct verbs_gid){
		.device = device,
		.port = entry->port_num,
		.index = entry->gid_index,
		.type = (enum verbs_gid_type)entry->gid_type,
		.ifindex = entry->ndev_ifindex,
	};
	memcpy(gid->gid, entry->gid.raw, 16);
	inventory->gid_count++;
}

static int add_gids(struct inventory *inventory, uint32_t device, struct error *error)
{
	struct ibv_context *context = inventory->contexts[device];
	struct ibv_device_attr limits;
	struct ibv_port_attr port;
	struct ibv_gid_entry *entries;
	size_t room = 0;
	ssize_t count;

	if (ibv_query_device(context, &limits))
		return 0;
	for (uint8_t i = 1; i <= limits.phys_port_cnt; i++)
		room += ibv_query_port(context, i, &port) ? 0 : (size_t)port.gid_tbl_len;
	entries = calloc(room + 1, sizeof(*entries));
	if (!entries)
		return error_set(error, ENOMEM, "no memory for a GID table");
	count = ibv_query_gid_table(context, entries, room, 0);
	for (ssize_t i = 0; i < count; i++)
		add_gid(inventory, device, &entries[i]);
	free(entries);
	return 0;
}

_Static_assert((int)VERBS_GID_INFINIBAND == IBV_GID_TYPE_IB &&
		       (int)VERBS_GID_ROCE_V1 == IBV_GID_TYPE_ROCE_V1 &&
		       (int)VERBS_GID_ROCE_V2 == IBV_GID_TYPE_ROCE_V2,
	       "the types of libibverbs");

/* Opens what the choice allows. A device that cannot be opened counts only when none can. */
static int open_devices(struct inventory *inventory, struct ibv_device **list, int count,
			const struct verbs_choice *choice, struct error *error)
{
	char names[LIST] = "";
	size_t used = 0;
	int rc = 0;

	for (int i = 0; i < count && inventory->devices < DEVICES && rc != -ENOMEM; i++) {
		const char *name = ibv_get_device_name(list[i]);
		struct ibv_context *context;

		if (used < sizeof(names))
			used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
						 used ? ", " : "", name);
		if (choice->device[0] && strcmp(choice->device, name))
			continue;
		errno = 0;
		context = ibv_open_device(list[i]);
		if (!context) {
			rc = cannot_open(list[i], errno ? errno : EIO, error);
			continue;
		}
		inventory->contexts[inventory->devices++] = context;
		rc = add_gids(inventory, inventory->devices - 1, error);
	}
	if (rc == -ENOMEM || inventory->devices)
		return rc == -ENOMEM ? rc : 0;
	if (rc)
		return rc;
	error_set(error, ENODEV, "there is no RDMA device %s; there is %s", choice->device, names);
	return -ENODEV;
}

static void close_devices(struct inventory *inventory, const struct ibv_context *keep)
{
	for (uint32_t i = 0; i < inventory->devices; i++)
		if (inventory->contexts[i] != keep)
			ibv_close_device(inventory->contexts[i]);
	free(inventory->gids);
}

static int take_inventory(struct inventory *inventory, const struct verbs_choice *choice,
			  struct error *error)
{
	struct ibv_device **list;
	int count = 0, rc;

	*inventory = (struct inventory){ .gids = calloc(GIDS, sizeof(*inventory->gids)) };
	if (!inventory->gids)
		return error_set(error, ENOMEM, "no memory for the GID tables");
	list = ibv_get_device_list(&count);
	if (!list || !count) {
		if (list)
			ibv_free_device_list(list);
		no_device(error);
		return -ENODEV;
	}
	rc = open_devices(inventory, list, count, choice, error);
	ibv_free_device_list(list);
	return rc;
}

static const char *device_name(const struct inventory *inventory, uint32_t device)
{
	return ibv_get_device_name(inventory->contexts[device]->device);
}

/* "rxe0 port 1: 192.0.2.2 (GID 1), …": RoCEv2 only, for that is what can be used. */
static void list_gids(const struct inventory *inventory, char text[LIST])
{
	char ip[INET6_ADDRSTRLEN];
	size_t used = 0;

	for (size_t i = 0; i < inventory->gid_count && used < LIST; i++) {
		const struct verbs_gid *gid = &inventory->gids[i];

		if (gid->type == VERBS_GID_ROCE_V2)
			used += (size_t)snprintf(text + used, LIST - used,
						 "%s%s port %u: %s (GID %u)", used ? ", " : "",
						 device_name(inventory, gid->device), gid->port,
						 ip_text(gid->gid, ip), gid->index);
	}
	if (!used)
		snprintf(text, LIST, "none at all");
}

static int no_gid(const struct inventory *inventory, const struct verbs_choice *choice, int code,
		  struct error *error)
{
	const char *name = choice->device[0] ? choice->device : "any device";
	char list[LIST], ip[INET6_ADDRSTRLEN];

	list_gids(inventory, list);
	ip_text(choice->ip, ip);
	switch (code) {
	case ENOENT:
		return error_set(error, code,
				 "%s has no such port or GID index; RoCEv2 GIDs here are %s", name,
				 list);
	case EPROTONOSUPPORT:
		return error_set(error, code,
				 "the GID of %s on %s is not of the type RoCE v2; those here are "
				 "%s",
				 choice->gid_index < 0 ? ip : "that index", name, list);
	case EAFNOSUPPORT:
		return error_set(error, code,
				 "GID %d of %s is of another address family than %s, the "
				 "sender's way to here; RoCEv2 GIDs are %s",
				 choice->gid_index, name, ip, list);
	default:
		return error_set(error, code,
				 "no RoCEv2 GID of %s is %s, the address that the sender connected "
				 "to: use one of %s, or --soft",
				 name, ip, list);
	}
}

static int port_down(const struct verbs_device *device, struct error *error)
{
	return error_set(error, ENETDOWN,
			 "port %u of the RDMA device %s is %s, and must be active: set %s up and "
			 "look at its cable",
			 device->port, device->name, ibv_port_state_str(device->state.state),
			 device->interface[0] ? device->interface : "its interface");
}

static int read_state(struct verbs_device *device, struct error *error)
{
	int code = ibv_query_device(device->context, &device->limits);

	if (!code)
		code = ibv_query_port(device->context, device->port, &device->state);
	if (code)
		return error_set(error, code, "the RDMA device %s cannot be read: %s", device->name,
				 strerror(code));
	return device->state.state == IBV_PORT_ACTIVE ? 0 : port_down(device, error);
}

int verbs_device_open(struct verbs_device *device, const struct verbs_choice *choice,
		      struct error *error)
{
	struct verbs_gid_wish wish = {
		.port = choice->port,
		.index = choice->gid_index,
		.ifindex = choice->ifindex,
	};
	const struct verbs_gid *gid;
	struct inventory inventory;
	int rc = take_inventory(&inventory, choice, error), chosen;

	*device = (struct verbs_device){ 0 };
	if (rc) {
		close_devices(&inventory, NULL);
		return rc;
	}
	memcpy(wish.ip, choice->ip, 16);
	chosen = verbs_gid_choose(inventory.gids, inventory.gid_count, &wish);
	if (chosen < 0) {
		rc = no_gid(&inventory, choice, -chosen, error);
		close_devices(&inventory, NULL);
		return rc;
	}
	gid = &inventory.gids[chosen];
	device->context = inventory.contexts[gid->device];
	snprintf(device->name, sizeof(device->name), "%s", device_name(&inventory, gid->device));
	device->port = (uint8_t)gid->port;
	device->gid_index = (uint8_t)gid->index;
	memcpy(device->ip, gid->gid, 16);
	if (!gid->ifindex || !if_indextoname(gid->ifindex, device->interface))
		device->interface[0] = 0;
	close_devices(&inventory, device->context);
	rc = read_state(device, error);
	if (rc)
		verbs_device_close(device);
	return rc;
}

void verbs_device_close(struct verbs_device *device)
{
	if (device->context)
		ibv_close_device(device->context);
	device->context = NULL;
}

int verbs_check(const struct verbs_choice *choice, struct error *error)
{
	struct inventory inventory;
	int rc = take_inventory(&inventory, choice, error);

	close_devices(&inventory, NULL);
	return rc;
}

int verbs_device_check(const struct verbs_device *device, const struct verbs_config *config,
		       struct error *error)
{
	uint32_t carried = 128u << device->state.active_mtu;
	uint64_t receives = config->immediate ? config->slot_count - 1 : 0;
	uint64_t limit = (uint64_t)(device->limits.max_qp_wr < device->limits.max_cqe
					    ? device->limits.max_qp_wr
					    : device->limits.max_cqe);

	if (config->pmtu > carried)
		return error_set(
			error, EMSGSIZE,
			"PMTU %u is more than port %u of %s carries now, %u: raise the MTU "
			"of %s to %u, or send with --pmtu %u",
			config->pmtu, device->port, device->name, carried,
			device->interface[0] ? device->interface : "its interface",
			config->pmtu + 96, carried);
	if (device->state.max_msg_sz && config->message_size > device->state.max_msg_sz)
		return error_set(error, EMSGSIZE,
				 "messages of %" PRIu64 " bytes are longer than %s takes, %u: send "
				 "with --message-size %u",
				 config->message_size, device->name, device->state.max_msg_sz,
				 device->state.max_msg_sz);
	if (receives > limit)
		return error_set(error, EINVAL,
				 "%s posts at most %" PRIu64 " receives: start the receiver with "
				 "--slots %" PRIu64 " or fewer",
				 device->name, limit, limit + 1);
	return 0;
}
