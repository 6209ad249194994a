// SPDX-License-Identifier: GPL-2.0-only
/*
 * Grants: a thread in user mode injects interrupts without a system call
 *
 * hgrant of a hart says what ugenvsei may reach. It belongs to the thread that
 * runs on the hart, so preempt notifiers switch it. A grant ends with its
 * thread, when the thread gives it back, or when it executes another program.
 */

#include <linux/binfmts.h>
#include <linux/irq_work.h>
#include <linux/kvm_host.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <asm/kvm_trapless.h>

#include "trapless.h"

struct trapless_grant {
	struct preempt_notifier notifier;
	struct kvm *kvm;
	/* Value of hgrant while the thread runs */
	u64 value;
	struct irq_work dead;
	struct work_struct release;
};

static struct workqueue_struct *trapless_grant_wq;

static void trapless_grant_release(struct work_struct *work)
{
	struct trapless_grant *grant = container_of(work, struct trapless_grant,
						    release);

	/* trapless_grant_dead() has queued this, but may not have returned */
	irq_work_sync(&grant->dead);
	kvm_put_kvm(grant->kvm);
	kfree(grant);
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

	/* A thread on its way out has no address space */
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

/* The calling thread's grant. Nobody else changes the list of its notifiers. */
static struct trapless_grant *trapless_grant_find(void)
{
	struct preempt_notifier *notifier;

	hlist_for_each_entry(notifier, &current->preempt_notifiers, link)
		if (notifier->ops == &trapless_grant_ops)
			return container_of(notifier, struct trapless_grant,
					    notifier);

	return NULL;
}

/* Value of hgrant with which sources of a VM can be injected */
u64 kvm_riscv_trapless_grant_value(struct kvm *kvm, u32 first, u32 count)
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

	/* Not here: this may be the VM's last reference */
	queue_work(trapless_grant_wq, &grant->release);
}

/*
 * The calling thread is about to execute another program, which has been granted
 * nothing. Binary formats are asked in the order of their registration, the last
 * one first: this is before the thread leaves its old address space, which may
 * have other users and so tells nothing. A kernel that has KVM built in would do
 * it in flush_thread().
 */
static int trapless_grant_exec(struct linux_binprm *bprm)
{
	struct trapless_grant *grant = trapless_grant_find();

	if (grant)
		trapless_grant_give_back(grant);

	return -ENOEXEC;
}

static struct linux_binfmt trapless_grant_format = {
	.module = THIS_MODULE,
	.load_binary = trapless_grant_exec,
};

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
		WRITE_ONCE(grant->value, kvm_riscv_trapless_grant_value(kvm, first, count));
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
	grant->value = kvm_riscv_trapless_grant_value(kvm, first, count);
	init_irq_work(&grant->dead, trapless_grant_dead);
	INIT_WORK(&grant->release, trapless_grant_release);
	preempt_notifier_init(&grant->notifier, &trapless_grant_ops);

	preempt_disable();
	preempt_notifier_register(&grant->notifier);
	csr_write(CSR_HGRANT, grant->value);
	preempt_enable();

	return 0;
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
	if (!trapless_grant_wq)
		return -ENOMEM;
	insert_binfmt(&trapless_grant_format);

	return 0;
}

/*
 * No VM is left, so no grant either; but the work that put the last reference
 * to a VM may not have returned yet.
 */
void kvm_riscv_trapless_grant_exit(void)
{
	unregister_binfmt(&trapless_grant_format);
	destroy_workqueue(trapless_grant_wq);
}
