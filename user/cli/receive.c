/* SPDX-License-Identifier: BSD-2-Clause */
/* The public receive function: what `xdp2roce recv` does, with a callback instead of a file. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "endpoint.h"
#include "recv.h"

static int check_range(const char *what, uint64_t value, uint64_t lowest, uint64_t highest,
		       struct error *error)
{
	if (value >= lowest && value <= highest)
		return 0;
	return error_set(error, EINVAL, "%s is %llu, expected %llu…%llu", what,
			 (unsigned long long)value, (unsigned long long)lowest,
			 (unsigned long long)highest);
}

static int fill_in(struct recv_options *options, const struct xdp2roce_receive_config *config,
		   struct error *error)
{
	struct endpoint endpoint = { .port = options->port };
	int rc = 0;

	if (config->listen)
		rc = parse_endpoint(config->listen, &endpoint, error);
	if (!rc && config->slots)
		rc = check_range("slots", config->slots, 2, 65536, error);
	if (!rc && config->slot_size)
		rc = check_range("slot_size", config->slot_size, 64, ROCE_MAX_MESSAGE, error);
	if (!rc && config->slot_size % 64)
		rc = error_set(error, EINVAL, "slot_size is %llu, expected a multiple of 64",
			       (unsigned long long)config->slot_size);
	if (!rc)
		rc = check_range("rnr_timer", config->rnr_timer, 0, 31, error);
	if (!rc && config->device && strlen(config->device) >= sizeof(options->device))
		rc = error_set(error, ENODEV, "there is no RDMA device %.64s", config->device);
	if (rc)
		return rc;

	memcpy(options->host, endpoint.host, sizeof(options->host));
	options->port = endpoint.port;
	options->soft = config->soft;
	if (config->device)
		snprintf(options->device, sizeof(options->device), "%s", config->device);
	if (config->streams || config->endless)
		options->streams = config->endless ? 0 : config->streams;
	if (config->slots)
		options->slots = config->slots;
	options->slot_size = config->slot_size;
	if (config->memory)
		options->memory = config->memory;
	if (config->rnr_timer)
		options->rnr_timer = (uint8_t)config->rnr_timer;
	return 0;
}

int xdp2roce_receive(const struct xdp2roce_receive_config *config, xdp2roce_on_message *on_message,
		     void *context, char *error, size_t error_size)
{
	struct recv_options options;
	struct error why = { "" };
	int rc;

	recv_options_init(&options);
	options.on_message = on_message;
	options.context = context;
	rc = on_message ? fill_in(&options, config, &why)
			: error_set(&why, EINVAL, "on_message is NULL, expected a function");
	if (!rc)
		rc = recv_serve(&options, config->stop_fd, &why);
	if (error_size)
		snprintf(error, error_size, "%s", why.text);
	return rc;
}
