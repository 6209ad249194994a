/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * VMs for the tests of the KVM device of Xtrapless: a bare-metal guest of one
 * page (trapless_guest.S) counts what each of its vCPUs is interrupted with.
 */

#ifndef __TRAPLESS_TEST_VM_H
#define __TRAPLESS_TEST_VM_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <linux/kvm.h>
#include "../include/kvm-numbers.h"
#include "../include/uapi/linux/kvm_trapless.h"

#define SOURCES		16
#define MAX_VCPUS	32
#define LEVEL		(1ULL << 32)
#define RESAMPLE	(1ULL << 33)
#define PRIO(p)		((uint64_t)(p) << 16)
#define SSIE		(1 << 1)
#define SEIE		(1 << 9)

/* One for each vCPU, in memory that guest and test share; trapless_guest.S knows it */
struct shared {
	uint64_t sie;		/* 0: what the guest writes to sie */
	uint64_t command;	/* 8: 1 sgenipi, 2 hgenvsi, then see below */
	uint64_t argument;	/* 16 */
	uint64_t soft;		/* 24: software interrupts */
	uint64_t exceptions;	/* 32 */
	uint64_t cause;		/* 40: of the last exception */
	uint64_t rounds;	/* 48: times round the loop */
	uint64_t count[SOURCES + 1]; /* 56: external interrupts */
	uint64_t hold;		/* 192: do not complete while set */
	uint64_t repeat;	/* 200: sgenipi or a request so many times, at least once */
	uint64_t request;	/* 208: number of the last one, of which a kick at argument tells */
	uint64_t answer;	/* 216 */
	uint64_t gap;		/* 224: longest between two looks at the time, in ticks */
	uint64_t changed;	/* 232: registers found changed */
	uint64_t looks;		/* 240: at the time */
	uint64_t unused;
	uint64_t x[32];		/* 256: those found; x[0] how often */
};

/* Commands: with an argument that is an address, so often as repeat says ... */
#define REQUESTS	3
#define KICKS		4
#define ACCESSES	5
#define EVENTS		8	/* ... writes the argument to sgenvei ... */
/* ... until it is 0 */
#define GAPS		6
#define REGISTERS	7

_Static_assert(offsetof(struct shared, hold) == 192, "known to the guest");
_Static_assert(offsetof(struct shared, repeat) == 200, "known to the guest");
_Static_assert(offsetof(struct shared, answer) == 216, "known to the guest");
_Static_assert(offsetof(struct shared, x) == 256, "known to the guest");

struct vcpu {
	int fd;
	struct kvm_run *run;
	pthread_t thread;
	/* Of the thread, once it runs */
	volatile int tid;
	/* CPU it is pinned to, and its nice value; before start() */
	int cpu, nice;
	/* Its accesses to nothing are expected: those that KVM left to us, and refused */
	int wild;
	volatile unsigned long loads, stores, refused;
	volatile int stop;
	volatile struct shared *shared;
};

struct vm {
	int fd;
	int dev;
	int nr_vcpus;
	char *memory;
	struct vcpu vcpus[MAX_VCPUS];
};

extern int kvm, failures;

#define CHECK(condition, ...)						\
	do {								\
		int ok_ = !!(condition);				\
									\
		printf("%s ", ok_ ? "ok  " : "FAIL");			\
		printf(__VA_ARGS__);					\
		printf("\n");						\
		fflush(stdout);						\
		failures += !ok_;					\
	} while (0)

_Noreturn void fatal(const char *what);

/*
 * vCPUs in their reset state, without an interrupt controller. Handlers of user
 * contexts may interrupt them.
 */
void create_vm(struct vm *vm, int nr_vcpus);
int create_device(struct vm *vm);
/* ... with one, all SOURCES with priority 1 for vCPU 0 */
void create_domain(struct vm *vm, int nr_vcpus);
/* ... with so many sources */
void create_large_domain(struct vm *vm, int nr_vcpus, int sources);
/* ... that no handler interrupts */
void create_private_domain(struct vm *vm, int nr_vcpus);
void destroy_vm(struct vm *vm);
/* WFI of the guest waits on the hart, or exits */
void native_wfi(struct vm *vm, int on);

/* Run a vCPU in a thread of its own, and end the thread */
void start(struct vcpu *vcpu);
void stop(struct vcpu *vcpu);

/* Attributes of the device; negative error numbers */
int attr(struct vm *vm, int op, uint32_t group, uint64_t attr, void *value);
int set64(struct vm *vm, uint32_t group, uint64_t index, uint64_t value);
int set32(struct vm *vm, uint32_t group, uint64_t index, uint32_t value);
uint64_t get64(struct vm *vm, uint32_t group, uint64_t index);
uint64_t vcpu_word(struct vm *vm, int vcpu, int word);
int irq_line(struct vm *vm, uint32_t gsi, int level);

int set_reg(struct vcpu *vcpu, uint64_t id, uint64_t value);
uint64_t get_reg(struct vcpu *vcpu, uint64_t id);

#define REG(type, name) \
	(KVM_REG_RISCV | KVM_REG_SIZE_U64 | (type) | (name))
#define CORE(name)	REG(KVM_REG_RISCV_CORE, KVM_REG_RISCV_CORE_REG(name))
#define SIP		REG(KVM_REG_RISCV_CSR | KVM_REG_RISCV_CSR_GENERAL, \
			    KVM_REG_RISCV_CSR_REG(sip))

/* Waits until *where is at least value, for a second; is it that value? */
int reaches(volatile uint64_t *where, uint64_t value);

/* Notification interrupts that a CPU of the host, or all (-1), have taken */
unsigned long notifications(int cpu);

#endif /* __TRAPLESS_TEST_VM_H */
