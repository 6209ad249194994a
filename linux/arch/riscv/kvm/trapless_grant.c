// SPDX-License-Identifier: GPL-2.0-only
/*
 * Grants: a thread in user mode injects interrupts without a system call
 *
 * hgrant of a hart says what ugenvsei may reach. It belongs to the thread that
 * runs on the hart, so preempt notifiers switch it. A grant ends with its
 * thread, or when the thread gives it back.
 */

#include <linux/irq_work.h>
#include <linux/kvm_host.h>
#include <linux/list.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <asm/kvm_trapless.h>

#include "trapless.h"

struct trapless_grant {
	struct preempt_notifier notifier;
	struct task_struct *task;
	struct kvm *kvm;
	/* Value of hgrant while the thread runs */
	u64 value;
	struct list_head link;
	struct irq_work dead;
	struct work_struct release;
};

static LIST_HEAD(trapless_grants);
static DEFINE_SPINLOCK(trapless_grants_lock);
static struct workqueue_struct *trapless_grant_wq;

static void trapless_grant_free(struct trapless_grant *grant)
{
	spin_lock(&trapless_grants_lock);
	list_del(&grant->link);
	spin_unlock(&trapless_grants_lock);

	put_task_struct(grant->task);
	kvm_put_kvm(grant->kvm);
	kfree(grant);
}

static void trapless_grant_release(struct work_struct *work)
{
	trapless_grant_free(container_of(work, struct trapless_grant, release));
}

static void trapless_grant_dead(struct irq_work *work)
{
	struct trapless_grant *grant = container_of(work, struct trapless_grant,
						    dead);

	queue_work(trapless_grant_wq, &grant->release);
}

static void trapless_grant_sched_in(struct preempt_notifier *notifier, int cpu)
{
	struct trapless_grant *grant = container_of(notifier,
						    struct trapless_grant,
						    notifier);

	/* A program started by execve() has not been granted anything */
	if (current->mm == grant->kvm->mm)
		csr_write(CSR_HGRANT, READ_ONCE(grant->value));
}

static void trapless_grant_sched_out(struct preempt_notifier *notifier,
				     struct task_struct *next)
{
	struct trapless_grant *grant = container_of(notifier,
						    struct trapless_grant,
						    notifier);

	csr_write(CSR_HGRANT, 0);
	/*
	 * The thread does not come back. Its grant must not be freed here, where
	 * the list of notifiers is being walked and the run queue is locked.
	 */
	if (READ_ONCE(current->__state) == TASK_DEAD)
		irq_work_queue(&grant->dead);
}

static struct preempt_ops trapless_grant_ops = {
	.sched_in = trapless_grant_sched_in,
	.sched_out = trapless_grant_sched_out,
};

static struct trapless_grant *trapless_grant_find(void)
{
	struct trapless_grant *grant;

	spin_lock(&trapless_grants_lock);
	list_for_each_entry(grant, &trapless_grants, link) {
		/* Only the thread itself gives its grant back: it stays valid */
		if (grant->task == current) {
			spin_unlock(&trapless_grants_lock);
			return grant;
		}
	}
	spin_unlock(&trapless_grants_lock);

	return NULL;
}

static u64 trapless_grant_value(struct kvm *kvm, u32 first, u32 count)
{
	return XTL_HGRANT_V |
	       FIELD_PREP(XTL_HGRANT_DOM, kvm->arch.trapless.domain) |
	       FIELD_PREP(XTL_HGRANT_COUNT, count) |
	       FIELD_PREP(XTL_HGRANT_FIRST, first);
}

static void trapless_grant_give_back(struct trapless_grant *grant)
{
	preempt_disable();
	preempt_notifier_unregister(&grant->notifier);
	csr_write(CSR_HGRANT, 0);
	preempt_enable();

	trapless_grant_free(grant);
}

/*
 * Let the calling thread reach @count sources of the VM from @first on. The
 * range has been checked. Replaces the thread's former grant; no sources, no
 * grant.
 */
int kvm_riscv_trapless_grant_set(struct kvm *kvm, u32 first, u32 count)
{
	struct trapless_grant *grant = trapless_grant_find();

	if (!count) {
		if (!grant || grant->kvm != kvm)
			return -ENOENT;
		trapless_grant_give_back(grant);
		return 0;
	}

	if (grant && grant->kvm == kvm) {
		preempt_disable();
		WRITE_ONCE(grant->value, trapless_grant_value(kvm, first, count));
		csr_write(CSR_HGRANT, grant->value);
		preempt_enable();
		return 0;
	}
	if (grant)
		trapless_grant_give_back(grant);

	grant = kzalloc(sizeof(*grant), GFP_KERNEL_ACCOUNT);
	if (!grant)
		return -ENOMEM;

	kvm_get_kvm(kvm);
	grant->kvm = kvm;
	grant->task = get_task_struct(current);
	grant->value = trapless_grant_value(kvm, first, count);
	init_irq_work(&grant->dead, trapless_grant_dead);
	INIT_WORK(&grant->release, trapless_grant_release);
	preempt_notifier_init(&grant->notifier, &trapless_grant_ops);

	spin_lock(&trapless_grants_lock);
	list_add(&grant->link, &trapless_grants);
	spin_unlock(&trapless_grants_lock);

	preempt_disable();
	preempt_notifier_register(&grant->notifier);
	csr_write(CSR_HGRANT, grant->value);
	preempt_enable();

	return 0;
}

/*
 * The address space of the VM's process ends. If that is so because the calling
 * thread executes another program, it must not keep the grant until it is
 * scheduled next.
 */
void kvm_riscv_trapless_grant_mm_gone(struct kvm *kvm)
{
	struct trapless_grant *grant;

	preempt_disable();
	grant = trapless_grant_find();
	if (grant && grant->kvm == kvm)
		csr_write(CSR_HGRANT, 0);
	preempt_enable();
}

/* The calling thread's grant in this VM, as in the device attribute. */
u64 kvm_riscv_trapless_grant_get(struct kvm *kvm)
{
	struct trapless_grant *grant = trapless_grant_find();

	if (!grant || grant->kvm != kvm)
		return 0;

	return grant->value & (XTL_HGRANT_COUNT | XTL_HGRANT_FIRST);
}

int kvm_riscv_trapless_grant_init(void)
{
	trapless_grant_wq = alloc_workqueue("kvm-trapless-grant", 0, 0);

	return trapless_grant_wq ? 0 : -ENOMEM;
}

/*
 * No VM is left, so no grant either; but the work that put the last reference
 * to a VM may not have returned yet.
 */
void kvm_riscv_trapless_grant_exit(void)
{
	destroy_workqueue(trapless_grant_wq);
}
