/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A user context, as the parts of its implementation see it
 */

#ifndef __KVM_RISCV_UCTX_PRIVATE_H
#define __KVM_RISCV_UCTX_PRIVATE_H

#include <linux/atomic.h>
#include <linux/kvm_host.h>
#include <linux/kvm_uctx.h>
#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/rcuwait.h>
#include <linux/wait.h>
#include <asm/haiov.h>

/* What the controller reads and writes (Xhcs, structure "context") */
struct uctx_words {
	atomic64_t	ctl;
	atomic64_t	pending;
	u64		utvec;
	u64		uscratch;
	u64		suatp;
	u64		suscratch;
	u64		grant;
	u64		budget;
};

/* An eventfd whose kicks are for the context */
struct uctx_kick {
	struct kvm_uctx		*uctx;
	struct eventfd_ctx	*eventfd;
	wait_queue_entry_t	wait;
	poll_table		pt;
};

/* Behind them in their page: an event for the context */
struct uctx_page {
	struct uctx_words	words;
	u8			reserved[HAIOV_CONTEXT_SIZE - sizeof(struct uctx_words)];
	u64			ctl;
	u64			target;
};

struct kvm_uctx {
	/* In a page of its own, struct uctx_page */
	struct uctx_words	*words;
	u32			id;
	/* The VM of the process, which has no guest */
	struct kvm		*kvm;

	/* The thread in KVM_UCTX_RUN */
	struct mutex		run;
	struct task_struct	*thread;
	struct rcuwait		wait;
	/* It waits by WFI */
	bool			dozing;
	/* N of the control word is the thread's. Both become 0 under the lock */
	bool			owned;
	raw_spinlock_t		token;
	/* CPU that is kept awake, because it is told; under the lock */
	unsigned int		named;
	/* The handler has begun; its registers follow */
	bool			started;
	u64			pending;
	u64			ustatus;
	u64			uscratch;
	/* Handlers may begin: M of the control word is 0, but for a moment */
	bool			open;
	struct mutex		gate;
	/* Where __kvm_riscv_switch_to() keeps registers */
	struct kvm_vcpu_arch	*arch;

	/* What user space has set; under the mutex */
	struct mutex		lock;
	u64			cpu;
	struct uctx_kick	*kicks[KVM_DEV_UCTX_VECTORS];
	/* What the handler injects: that VM's irqfd with this eventfd, if any */
	struct eventfd_ctx	*call;
	struct kvm		*target;
	int			source;
	struct kvm_uctx_stats	stats;
};

static_assert(offsetof(struct uctx_page, ctl) % HAIOV_EVENT_SIZE == 0);

#define UCTX_OFFSET(field, word)						\
	static_assert(offsetof(struct uctx_words, field) == HAIOV_CONTEXT_##word)

UCTX_OFFSET(ctl, CTL);
UCTX_OFFSET(pending, PENDING);
UCTX_OFFSET(utvec, UTVEC);
UCTX_OFFSET(uscratch, USCRATCH);
UCTX_OFFSET(suatp, SUATP);
UCTX_OFFSET(grant, GRANT);
UCTX_OFFSET(budget, BUDGET);

/* Long enough for a request, and less than a guest waits for a host interrupt */
#define UCTX_BUDGET	20000

/* uctx.c */
struct kvm_uctx *kvm_riscv_uctx_create(struct kvm *kvm);
void kvm_riscv_uctx_stop(struct kvm_uctx *uctx);
void kvm_riscv_uctx_free(struct kvm_uctx *uctx);
long kvm_riscv_uctx_run(struct kvm_uctx *uctx, struct kvm_uctx_run *run);
void kvm_riscv_uctx_interrupt(void);
void kvm_riscv_uctx_post(struct kvm_uctx *uctx, unsigned int vector);
struct kvm_uctx *kvm_riscv_uctx_get(u32 id);

/* uctx_dev.c */
extern struct kvm_device_ops kvm_riscv_uctx_device_ops;

#define KVM_RISCV_UCTX_MAX	64

#endif /* __KVM_RISCV_UCTX_PRIVATE_H */
