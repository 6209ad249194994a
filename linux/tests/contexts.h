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

	/* Of the backend */
	uint64_t ready;
	uint64_t left;
	struct kvm_uctx_run run;
	struct kvm_uctx_stats stats;
	uint64_t error;
	/* What another thread does meanwhile, and how often it has, or with what result */
	uint64_t meanwhile;
	uint64_t done;
	int device;
};

#define MAP_UNMAP	1
#define FORK		2
#define EXECVE		3

#define SPIN		1
#define ECALL		2
#define FLOAT		3
#define TOUCH		4
#define LONG		5

_Static_assert(offsetof(struct state, order) == 272, "known to the handler");
_Static_assert(offsetof(struct state, guest) == 288, "known to the handler");

extern const char handler[];

struct backend {
	pid_t process;
	volatile struct state *state;
	/* Where its guest kicks, and what that signals */
	uint64_t address;
	int eventfd;
};

/* A process whose handler at @utvec answers a guest, and its end */
void spawn_backend(struct backend *b, volatile struct shared *guest, uint64_t cpu,
		   uint64_t utvec);
void kill_backend(struct backend *b);
/* Kicks at @address signal an eventfd, until a backend has it */
void doorbell(struct vm *vm, struct backend *b, uint64_t address);
uint64_t now_us(void);
/* Run a vCPU that never waits, on this CPU */
void spin(struct vm *vm, int vcpu, int cpu);

#endif /* __TRAPLESS_TEST_CONTEXTS_H */
