// SPDX-License-Identifier: GPL-2.0-only
/*
 * The KVM device for user contexts, and the eventfds that stand for what a handler
 * hears and says: Documentation/virt/kvm/devices/riscv-uctx.rst.
 */

#include <linux/bitfield.h>
#include <linux/capability.h>
#include <linux/cpumask.h>
#include <linux/eventfd.h>
#include <linux/file.h>
#include <linux/kvm_host.h>
#include <linux/kvm_irqfd.h>
#include <linux/kvm_uctx.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <asm/kvm_trapless.h>
#include <asm/kvm_uctx.h>
#include <asm/kvm_vei.h>

#include "uctx.h"

/* All kicks of all contexts: kicks[] of each changes under it, too */
static DEFINE_MUTEX(uctx_kicks);
/* What handlers inject: call, target, source and grant of all contexts */
static DEFINE_MUTEX(uctx_calls);

/* Which context hears of an eventfd? With the mutex of events held. */
bool kvm_riscv_uctx_find(struct eventfd_ctx *eventfd,
			 struct kvm_uctx_target *target)
{
	unsigned int vector;
	struct kvm_uctx *uctx;
	bool found = false;
	u32 id;

	mutex_lock(&uctx_kicks);
	/* A context that goes has lost its kicks before */
	rcu_read_lock();
	for (id = 0; id < KVM_RISCV_UCTX_MAX && !found; id++) {
		uctx = kvm_riscv_uctx_get(id);
		for (vector = 0; uctx && vector < KVM_DEV_UCTX_VECTORS; vector++) {
			if (!uctx->kicks[vector] ||
			    uctx->kicks[vector]->eventfd != eventfd)
				continue;
			target->address = __pa(uctx->words);
			target->vector = vector;
			found = true;
			break;
		}
	}
	rcu_read_unlock();
	mutex_unlock(&uctx_kicks);

	return found;
}

/* Somebody has written to the eventfd. With its lock held, interrupts disabled. */
static int uctx_kick_wakeup(wait_queue_entry_t *wait, unsigned int mode, int sync,
			    void *key)
{
	struct uctx_kick *kick = container_of(wait, struct uctx_kick, wait);
	unsigned int vector;

	if (!(key_to_poll(key) & EPOLLIN))
		return 0;
	for (vector = 0; vector < KVM_DEV_UCTX_VECTORS; vector++)
		if (READ_ONCE(kick->uctx->kicks[vector]) == kick)
			kvm_riscv_uctx_post(kick->uctx, vector);

	return 0;
}

static void uctx_kick_queue(struct file *file, wait_queue_head_t *head,
			    poll_table *pt)
{
	struct uctx_kick *kick = container_of(pt, struct uctx_kick, pt);

	add_wait_queue_priority(head, &kick->wait);
}

/* What has been kicked and not been handled to the end: a handler may die with its process. */
static u64 uctx_kicked(struct kvm_uctx *uctx)
{
	u64 pending = atomic64_read(&uctx->words->pending);

	return READ_ONCE(uctx->started) ? pending | READ_ONCE(uctx->pending) :
					  pending;
}

static void uctx_drop_kick(struct kvm_uctx *uctx, unsigned int vector)
{
	struct uctx_kick *kick = uctx->kicks[vector];
	u64 count;

	if (!kick)
		return;

	mutex_lock(&uctx_kicks);
	WRITE_ONCE(uctx->kicks[vector], NULL);
	mutex_unlock(&uctx_kicks);
	kvm_riscv_vei_aim(kick->eventfd);
	eventfd_ctx_remove_wait_queue(kick->eventfd, &kick->wait, &count);
	/* Whoever listens to the eventfd now has it to do */
	if (count || uctx_kicked(uctx) & BIT_ULL(vector))
		eventfd_signal(kick->eventfd);
	eventfd_ctx_put(kick->eventfd);
	kfree(kick);
}

static int uctx_set_kick(struct kvm_uctx *uctx, u64 vector, u64 fd)
{
	struct uctx_kick *kick;
	struct file *file;

	if (vector >= KVM_DEV_UCTX_VECTORS)
		return -EINVAL;
	if (fd == ~0ULL) {
		uctx_drop_kick(uctx, vector);
		return 0;
	}

	file = eventfd_fget(fd);
	if (IS_ERR(file))
		return PTR_ERR(file);
	kick = kzalloc(sizeof(*kick), GFP_KERNEL_ACCOUNT);
	if (!kick) {
		fput(file);
		return -ENOMEM;
	}
	kick->uctx = uctx;
	kick->eventfd = eventfd_ctx_fileget(file);
	init_waitqueue_func_entry(&kick->wait, uctx_kick_wakeup);
	init_poll_funcptr(&kick->pt, uctx_kick_queue);

	uctx_drop_kick(uctx, vector);
	mutex_lock(&uctx_kicks);
	WRITE_ONCE(uctx->kicks[vector], kick);
	mutex_unlock(&uctx_kicks);
	kvm_riscv_vei_aim(kick->eventfd);
	/* What was said before */
	if (vfs_poll(file, &kick->pt) & EPOLLIN)
		kvm_riscv_uctx_post(uctx, vector);
	fput(file);

	return 0;
}

/* With the mutex of calls held. */
static void uctx_revoke(struct kvm_uctx *uctx)
{
	WRITE_ONCE(uctx->words->grant, 0);
	eventfd_ctx_put(uctx->call);
	uctx->call = NULL;
	uctx->target = NULL;
}

static void uctx_drop_call(struct kvm_uctx *uctx)
{
	bool found;

	mutex_lock(&uctx_calls);
	found = uctx->target;
	if (found)
		uctx_revoke(uctx);
	mutex_unlock(&uctx_calls);

	/* A handler that runs has loaded the grant */
	if (found)
		kvm_riscv_uctx_interrupt();
}

/* If the irqfd is still there: who removes it looks for contexts after that. */
static int uctx_grant(struct kvm_uctx *uctx, struct kvm *target,
		      struct eventfd_ctx *eventfd)
{
	int source;

	mutex_lock(&uctx_calls);
	source = kvm_irqfd_pin(target, eventfd);
	if (source >= 0) {
		uctx->call = eventfd;
		uctx->target = target;
		uctx->source = source;
		WRITE_ONCE(uctx->words->grant,
			   kvm_riscv_trapless_grant_value(target, source, 1));
	}
	mutex_unlock(&uctx_calls);

	return min(source, 0);
}

static int uctx_set_call(struct kvm_uctx *uctx, u64 fd)
{
	struct eventfd_ctx *eventfd;
	struct kvm *target;
	int ret = -ENOENT;

	uctx_drop_call(uctx);
	if (fd == ~0ULL)
		return 0;

	eventfd = eventfd_ctx_fdget(fd);
	if (IS_ERR(eventfd))
		return PTR_ERR(eventfd);
	target = kvm_irqfd_find(eventfd);
	if (target) {
		ret = kvm_riscv_trapless_initialized(target) ?
		      uctx_grant(uctx, target, eventfd) : -EOPNOTSUPP;
		kvm_put_kvm(target);
	}
	if (ret)
		eventfd_ctx_put(eventfd);

	return ret;
}

/*
 * An irqfd of the VM has gone, or injects something else: so do handlers in its
 * place. Contexts hold no reference to the VM, whose irqfds go before it.
 */
void kvm_arch_irqfds_changed(struct kvm *kvm)
{
	struct kvm_uctx *uctx;
	bool changed = false;
	int source;
	u32 id;

	if (!kvm_riscv_uctx_available())
		return;

	mutex_lock(&uctx_calls);
	rcu_read_lock();
	for (id = 0; id < KVM_RISCV_UCTX_MAX; id++) {
		uctx = kvm_riscv_uctx_get(id);
		if (!uctx || uctx->target != kvm)
			continue;
		source = kvm_irqfd_pin(kvm, uctx->call);
		if (source == uctx->source)
			continue;
		changed = true;
		if (source < 0) {
			uctx_revoke(uctx);
			continue;
		}
		uctx->source = source;
		WRITE_ONCE(uctx->words->grant,
			   kvm_riscv_trapless_grant_value(kvm, source, 1));
	}
	rcu_read_unlock();
	mutex_unlock(&uctx_calls);

	if (changed)
		kvm_riscv_uctx_interrupt();
}

/* Time of a CPU's guests is for who may have time of the CPU. */
static int uctx_set_cpu(struct kvm_uctx *uctx, u64 cpu)
{
	if (cpu < KVM_DEV_UCTX_CPU_OWN) {
		if (cpu >= nr_cpu_ids || !cpu_online(cpu))
			return -EINVAL;
		if (!cpumask_test_cpu(cpu, current->cpus_ptr) &&
		    !capable(CAP_SYS_NICE))
			return -EPERM;
	}
	WRITE_ONCE(uctx->cpu, cpu);

	return 0;
}

static int uctx_set_value(struct kvm_uctx *uctx, u64 attr, u64 value)
{
	struct uctx_words *words = uctx->words;

	switch (attr) {
	case KVM_DEV_UCTX_UTVEC:
		if (!value || value & 3)
			return -EINVAL;
		WRITE_ONCE(words->utvec, value);
		return 0;
	case KVM_DEV_UCTX_USCRATCH:
		WRITE_ONCE(words->uscratch, value);
		return 0;
	case KVM_DEV_UCTX_BUDGET:
		if (!value || value > KVM_DEV_UCTX_MAX_BUDGET)
			return -EINVAL;
		if (value > UCTX_BUDGET && !capable(CAP_SYS_NICE))
			return -EPERM;
		WRITE_ONCE(words->budget, value);
		return 0;
	case KVM_DEV_UCTX_CPU:
		return uctx_set_cpu(uctx, value);
	default:
		return -ENXIO;
	}
}

static int uctx_has_attr(struct kvm_device *dev, struct kvm_device_attr *attr)
{
	switch (attr->group) {
	case KVM_DEV_UCTX_GRP_ATTR:
		return attr->attr <= KVM_DEV_UCTX_CPU ? 0 : -ENXIO;
	case KVM_DEV_UCTX_GRP_KICK:
		return attr->attr < KVM_DEV_UCTX_VECTORS ? 0 : -ENXIO;
	case KVM_DEV_UCTX_GRP_CALL:
	case KVM_DEV_UCTX_GRP_STATS:
		return attr->attr ? -ENXIO : 0;
	default:
		return -ENXIO;
	}
}

static int uctx_set_attr(struct kvm_device *dev, struct kvm_device_attr *attr)
{
	void __user *from = u64_to_user_ptr(attr->addr);
	struct kvm_uctx *uctx = dev->private;
	u64 value;
	int ret;

	if (copy_from_user(&value, from, sizeof(value)))
		return -EFAULT;
	mutex_lock(&uctx->lock);
	switch (attr->group) {
	case KVM_DEV_UCTX_GRP_ATTR:
		ret = uctx_set_value(uctx, attr->attr, value);
		break;
	case KVM_DEV_UCTX_GRP_KICK:
		ret = uctx_set_kick(uctx, attr->attr, value);
		break;
	case KVM_DEV_UCTX_GRP_CALL:
		ret = attr->attr ? -ENXIO : uctx_set_call(uctx, value);
		break;
	default:
		ret = -ENXIO;
	}
	mutex_unlock(&uctx->lock);

	return ret;
}

static int uctx_get_attr(struct kvm_device *dev, struct kvm_device_attr *attr)
{
	void __user *to = u64_to_user_ptr(attr->addr);
	struct kvm_uctx *uctx = dev->private;
	bool found;
	u64 source;

	if (attr->attr)
		return -ENXIO;

	switch (attr->group) {
	case KVM_DEV_UCTX_GRP_CALL:
		mutex_lock(&uctx_calls);
		found = uctx->target;
		source = uctx->source;
		mutex_unlock(&uctx_calls);
		if (!found)
			return -ENOENT;
		return put_user(source, (u64 __user *)to);
	case KVM_DEV_UCTX_GRP_STATS:
		return copy_to_user(to, &uctx->stats, sizeof(uctx->stats)) ?
		       -EFAULT : 0;
	default:
		return -ENXIO;
	}
}

static long uctx_ioctl(struct kvm_device *dev, unsigned int ioctl,
		       unsigned long arg)
{
	struct kvm_uctx_run run = {};
	long ret;

	if (ioctl != KVM_UCTX_RUN)
		return -ENOTTY;

	ret = kvm_riscv_uctx_run(dev->private, &run);
	if ((!ret || ret == -EINTR) &&
	    copy_to_user((void __user *)arg, &run, sizeof(run)))
		ret = -EFAULT;

	return ret;
}

static int uctx_create(struct kvm_device *dev, u32 type)
{
	struct kvm_uctx *uctx = kvm_riscv_uctx_create(dev->kvm);

	if (IS_ERR(uctx))
		return PTR_ERR(uctx);
	dev->private = uctx;

	return 0;
}

/* The file is closed, or there could be none: no thread is in an ioctl. */
static void uctx_release(struct kvm_device *dev)
{
	struct kvm_uctx *uctx = dev->private;
	unsigned int vector;

	for (vector = 0; vector < KVM_DEV_UCTX_VECTORS; vector++)
		uctx_drop_kick(uctx, vector);
	uctx_drop_call(uctx);
	kvm_riscv_uctx_free(uctx);
	kfree(dev);
}

struct kvm_device_ops kvm_riscv_uctx_device_ops = {
	.name = "kvm-riscv-uctx",
	.create = uctx_create,
	.release = uctx_release,
	.set_attr = uctx_set_attr,
	.get_attr = uctx_get_attr,
	.has_attr = uctx_has_attr,
	.ioctl = uctx_ioctl,
};
