/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `xdp2roce recv`: what its parts share. recv_options.c reads the options, recv.c accepts senders,
 * recv_stream.c serves one of them with a receiver of recv_session.h, recv_message.c checks its
 * messages, recv_output.c puts payload where it belongs, recv_report.c says what came of it.
 */
#ifndef USER_CLI_RECV_H
#define USER_CLI_RECV_H

#include <net/if.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <xdp2roce/error.h>

#include "../connect/exchange.h"
#include "../receiver/soft.h"
#include "../receiver/verbs.h"

#define RECV_INTERFACES 16

struct recv_options {
	bool soft;
	bool json;
	char host[256]; /* empty: all addresses */
	uint16_t port;
	const char *output; /* file, directory, "-", NULL: count and discard */
	uint64_t streams;   /* 0: until interrupted */
	uint32_t slots;
	uint64_t slot_size; /* 0: what the sender's messages need */
	uint64_t memory;    /* bytes of slots, all streams together */
	uint8_t rnr_timer;
	bool hugepages;
	/* Of the RDMA device. */
	char device[VERBS_NAME];
	uint8_t device_port; /* 0: any */
	int16_t gid_index;   /* −1: by address */
	/* With soft. */
	bool soft_only; /* one of these was named */
	uint8_t credits;
	struct faults_config faults;
	uint64_t reader_delay_ns;
	uint64_t timeout_ns; /* 0: none */
};

/* What all streams share. */
struct recv_shared {
	struct recv_options options;
	int stop;             /* eventfd, readable from the first signal on */
	int finished;         /* eventfd, written when a stream's thread ends */
	pthread_mutex_t lock; /* of what follows */
	uint64_t memory_used;
	struct {
		int ifindex;
		struct soft *soft;
	} interfaces[RECV_INTERFACES];
};

/* One sender's stream, from its connection to its report. */
struct recv_stream {
	struct recv_shared *shared;
	struct recv_stream *next;
	pthread_t thread;
	int connection;
	char peer[64];
	atomic_bool ended; /* the thread has nothing more to do but return */
	/* Valid once ended. */
	bool started;  /* the sender got its answer: this is a stream, and not a refused offer */
	bool complete; /* everything that was sent has arrived and has been written */
	struct error error; /* why not */
	struct exchange_offer offer;
	struct exchange_count done; /* by the sender's account */
	uint64_t messages;          /* that arrived whole */
	uint64_t bytes;             /* payload of those */
	bool qp_error;              /* the receiver's queue pair failed */
	uint64_t lost_messages;     /* UC: numbers that were skipped */
	uint64_t long_messages;     /* longer than their slot */
	uint64_t overruns;    /* messages whose slot was used again before they were written out */
	uint64_t bad_records; /* messages whose record is none, or is of another message */
	struct soft_report soft;
	struct verbs_address verbs;
	double seconds; /* from answer to end */
};

/* Serves the stream in a thread of its own. The connection is closed at its end. */
int recv_stream_start(struct recv_stream *stream, struct error *error);

/* The interface that has the local address of a sender's connection. */
struct recv_interface {
	uint8_t ip[16]; /* that address; IPv4 as ::ffff:a.b.c.d */
	bool ipv6;
	int index;
	uint32_t mtu;
	char name[IF_NAMESIZE];
};

int recv_interface_find(struct recv_interface *interface, int connection, struct error *error);

int recv_options_parse(struct recv_options *options, int argc, char **argv);

struct recv_output {
	int fd; /* -1: discard */
	bool regular;
};

/*
 * name is the sender's, and is trusted with nothing. stop: an eventfd; what waits for the other end
 * of a pipe ends with -EINTR when it becomes readable.
 */
int recv_output_open(struct recv_output *output, const char *path, const char *name, int stop,
		     struct error *error);
int recv_output_write(struct recv_output *output, const uint8_t *data, uint64_t length, int stop,
		      struct error *error);
/* Errors that only show at the end are reported here. */
int recv_output_close(struct recv_output *output, struct error *error);

void recv_report(const struct recv_stream *stream);

#endif
