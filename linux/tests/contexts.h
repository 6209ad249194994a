/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Processes with user contexts, for tests
 */

#ifndef __TRAPLESS_TEST_CONTEXTS_H
#define __TRAPLESS_TEST_CONTEXTS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "../include/uapi/linux/kvm_uctx.h"
#include "vm.h"

#define DOORBELL	0x10000000ULL
#define VECTOR		5

/* What handler.S knows, in memory that the processes share */
struct state {
	uint64_t x[32];		/* 0 */
	uint64_t pending;	/* 256 */
	uint64_t begun;		/* 264 */
	uint64_t order;		/* 272: 0 answer, then see below */
	uint64_t address;	/* 280 */
	volatile struct shared *guest; /* 288 */
	/* What it finds in registers of user mode */
	uint64_t ustatus;	/* 296 */
	uint64_t utvec;
	uint64_t uepc;
	uint64_t ucause;
	uint64_t utinst;

	/* Of the backend */
	uint64_t ready;
	uint64_t left;
	struct kvm_uctx_run run;
	struct kvm_uctx_stats stats;
	uint64_t error;
	uint64_t floats_changed;
	/* What another thread does meanwhile, and how often it has, or with what result */
	uint64_t meanwhile;
	uint64_t done;
	uint64_t garbage;
	uint64_t other_cpu;
	int device;
};

#define MAP_UNMAP	1
#define FORK		2
#define EXECVE		3
#define UNMAP		4
#define OVERWRITE	5
#define PROTECT		6
#define VFORK		7
#define CLONE		8

#define SPIN		1
#define ECALL		2
#define FLOAT		3
#define TOUCH		4
#define LONG		5
#define STACK		6
#define SCRIBBLE	7
#define BUSY		8

_Static_assert(offsetof(struct state, order) == 272, "known to the handler");
_Static_assert(offsetof(struct state, utinst) == 328, "known to the handler");

extern const char handler[], handler_end[], injector[];
long ioctl_with_floats(int fd, unsigned long request, void *argument,
		       volatile uint64_t *changed);

/* Instead of its address: the handler is in a page of its own, at state->address */
#define COPY		0

struct backend {
	pid_t process;
	volatile struct state *state;
	/* Where its guest kicks, and what that signals */
	uint64_t address;
	int eventfd;
};

/* A user context of this process, and its attributes: negative error numbers */
int uctx_create(void);
int uctx_set(int device, uint32_t group, uint64_t attr, uint64_t value);

/* CPU that backends are bound to */
extern int backend_cpu;

/* A process whose handler at @utvec answers a guest, and its end */
void spawn_backend(struct backend *b, volatile struct shared *guest, uint64_t cpu,
		   uint64_t utvec);
void start_backend(struct backend *b, volatile struct shared *guest, uint64_t cpu,
		   uint64_t utvec);
void kill_backend(struct backend *b);
/* Its counters, for which it has to leave KVM */
struct kvm_uctx_stats backend_stats(struct backend *b);
/* Let the guest make requests; are all answered, within a second each thousand? */
int requests(volatile struct shared *guest, uint64_t count);
/* Waits until the guest has done what it was told: it forgets what it is told before */
void idle(volatile struct shared *guest);
/* One request, for which nobody waits */
void kick(volatile struct shared *guest);
/* After what @b did wrong, its guest runs and kicks signal the eventfd */
void check_guest(struct vm *vm, struct backend *b, const char *what);
void pin(int cpu);
/* "0" or "1" */
void set_online(int cpu, const char *value);
/* A priority above all vCPUs, and what they start is not; 0: no more */
void come_first(int priority);
/* Kicks at @address signal an eventfd, until a backend has it */
void doorbell(struct vm *vm, struct backend *b, uint64_t address);
uint64_t now_us(void);
/* Run a vCPU that never waits, on this CPU */
void spin(struct vm *vm, int vcpu, int cpu);

#endif /* __TRAPLESS_TEST_CONTEXTS_H */
