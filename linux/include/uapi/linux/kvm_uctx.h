/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * KVM device for Xhcs: handlers in user mode for what guests post, in the address
 * space of the process that makes the device.
 * See Documentation/virt/kvm/devices/riscv-uctx.rst.
 */
#ifndef _UAPI_LINUX_KVM_UCTX_H
#define _UAPI_LINUX_KVM_UCTX_H

#include <linux/kvm.h>
#include <linux/types.h>

/*
 * KVM_ENABLE_CAP of KVM_CAP_RISCV_UCTX on a VM with a guest, before it has vCPUs
 * (args[0]): handlers of all contexts may interrupt the guest. No other guest is.
 */
#define KVM_CAP_RISCV_UCTX_INTERRUPT	(1ULL << 0)

/*
 * KVM_CREATE_DEVICE on any VM of the process, perhaps one without vCPUs. Several
 * for a VM: each device is a user context.
 *
 * Attributes: u64 each
 */
#define KVM_DEV_UCTX_GRP_ATTR		0
/* Address of the handler: a multiple of 4. Before KVM_UCTX_RUN. */
#define KVM_DEV_UCTX_UTVEC		0
/* What the handler finds in uscratch */
#define KVM_DEV_UCTX_USCRATCH		1
/* Cycles for which the handler may interrupt a guest */
#define KVM_DEV_UCTX_BUDGET		2
#define KVM_DEV_UCTX_MAX_BUDGET		1000000
/* CPU whose guest it interrupts; the following, or that of the thread (default) */
#define KVM_DEV_UCTX_CPU		3
#define KVM_DEV_UCTX_CPU_THREAD		(~0ULL)
/* The CPU of whoever posts */
#define KVM_DEV_UCTX_CPU_OWN		(~1ULL)

/*
 * Kicks (attribute: number of the vector, 0 to 63; value: u64 eventfd, or ~0 for
 * none any more). Doorbells that KVM has made or will make of a KVM_IOEVENTFD
 * with this eventfd, of any VM, set the vector's bit in utval and let the handler
 * run instead of signalling the eventfd; so does whoever else writes to it.
 */
#define KVM_DEV_UCTX_GRP_KICK		1
#define KVM_DEV_UCTX_VECTORS		64

/*
 * The interrupt that the handler may inject with UGENVSEI (value: u64 eventfd, or
 * ~0): the one that an irqfd with this eventfd injects into a VM with Xtrapless.
 * One for each context. Reading it gives the source, for ugenvsei.
 */
#define KVM_DEV_UCTX_GRP_CALL		2

/* How often what happened (get only: struct kvm_uctx_stats) */
#define KVM_DEV_UCTX_GRP_STATS		3

struct kvm_uctx_stats {
	/* Handlers that the thread began */
	__u64 begun;
	/* Handlers that interrupted a guest and were handed over to the thread */
	__u64 handed;
};

/*
 * The thread waits in this ioctl for what no guest can be interrupted by, and runs
 * the handler then. Handlers run only while a thread is in it. -EINTR after a
 * signal; the handler goes on in the next call.
 */
#define KVM_UCTX_RUN			_IOR(KVMIO, 0xe8, struct kvm_uctx_run)

struct kvm_uctx_run {
	/* Why it returned */
	__u32 reason;
	__u32 padding;
	/* Bits of utval with which the handler began */
	__u64 pending;
	/* Of its last trap */
	__u64 cause;
	__u64 pc;
	__u64 value;
};

/* The handler executed ECALL, and is over: the thread does the rest */
#define KVM_UCTX_EXIT_ECALL		0
/* The handler did what it must not: cause, pc and value tell */
#define KVM_UCTX_EXIT_FAULT		1
/* With -EINTR: the handler has begun, and goes on in the next call */
#define KVM_UCTX_EXIT_HANDLER		2
/* With -EINTR: it has not */
#define KVM_UCTX_EXIT_IDLE		3

#endif /* _UAPI_LINUX_KVM_UCTX_H */
