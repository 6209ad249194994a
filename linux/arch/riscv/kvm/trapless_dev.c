// SPDX-License-Identifier: GPL-2.0-only
/*
 * Device through which user space sets up, saves and restores the trap-less
 * interrupt controller of a VM; see
 * Documentation/virt/kvm/devices/riscv-trapless.rst
 */

#include <linux/kvm_host.h>
#include <linux/kvm_trapless.h>
#include <linux/nospec.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <asm/kvm_trapless.h>

#include "trapless.h"

#define TRAPLESS_DEFAULT_SOURCES	63

#define TRAPLESS_VCPU_WORDS		(XTL_FILE_PENDING_COUNT + \
					 XTL_FILE_ENABLE_COUNT)
#define TRAPLESS_VCPU_SOFT		64
#define TRAPLESS_VCPU_THRESHOLD		65

#define TRAPLESS_SOURCE_MASK		(XTL_SOURCE_ENTRY_RESAMPLE | \
					 XTL_SOURCE_ENTRY_LEVEL | \
					 XTL_SOURCE_ENTRY_PRIO | \
					 XTL_SOURCE_ENTRY_VHART)

static void trapless_unlock_vcpus(struct kvm *kvm, unsigned long count)
{
	while (count)
		mutex_unlock(&kvm_get_vcpu(kvm, --count)->mutex);
}

/* Keep all vCPUs from running, if none of them ever has. */
static int trapless_lock_new_vcpus(struct kvm *kvm, unsigned long *count)
{
	struct kvm_vcpu *vcpu;
	unsigned long i;

	/* A vCPU is being created */
	if (kvm->created_vcpus != atomic_read(&kvm->online_vcpus))
		return -EBUSY;

	kvm_for_each_vcpu(i, vcpu, kvm) {
		if (!mutex_trylock(&vcpu->mutex)) {
			trapless_unlock_vcpus(kvm, i);
			return -EBUSY;
		}
		if (vcpu->arch.ran_atleast_once) {
			trapless_unlock_vcpus(kvm, i + 1);
			return -EBUSY;
		}
	}
	/* Not i: at the end xa_for_each() leaves the index of the last one */
	*count = atomic_read(&kvm->online_vcpus);

	return 0;
}

static int trapless_create(struct kvm_device *dev, u32 type)
{
	struct kvm *kvm = dev->kvm;
	unsigned long count;
	int ret;

	if (irqchip_in_kernel(kvm))
		return -EEXIST;

	ret = trapless_lock_new_vcpus(kvm, &count);
	if (ret)
		return ret;

	kvm->arch.trapless.nr_sources = TRAPLESS_DEFAULT_SOURCES;
	kvm->arch.trapless.created = true;
	trapless_unlock_vcpus(kvm, count);

	return 0;
}

static void trapless_destroy(struct kvm_device *dev)
{
	kfree(dev);
}

static int trapless_init(struct kvm *kvm)
{
	unsigned long count;
	int ret;

	if (kvm_riscv_trapless_initialized(kvm))
		return -EBUSY;

	ret = trapless_lock_new_vcpus(kvm, &count);
	if (ret)
		return ret;

	ret = kvm_riscv_trapless_create_domain(kvm);
	trapless_unlock_vcpus(kvm, count);

	return ret;
}

static int trapless_config(struct kvm *kvm, u64 attr, u32 *value, bool write)
{
	struct kvm_trapless *tl = &kvm->arch.trapless;

	switch (attr) {
	case KVM_DEV_TRAPLESS_CONFIG_NR_SOURCES:
		if (!write) {
			*value = tl->nr_sources;
			return 0;
		}
		if (kvm_riscv_trapless_initialized(kvm))
			return -EBUSY;
		if (!*value || *value > XTRAPLESS_MAX_SOURCES)
			return -EINVAL;
		tl->nr_sources = *value;
		return 0;
	case KVM_DEV_TRAPLESS_CONFIG_NATIVE_WFI:
		if (!write) {
			*value = tl->native_wfi;
			return 0;
		}
		if (*value > 1)
			return -EINVAL;
		/* Each vCPU notices when it enters the guest next time */
		WRITE_ONCE(tl->native_wfi, *value);
		return 0;
	default:
		return -ENXIO;
	}
}

static int trapless_set_source(struct kvm *kvm, u64 source, u64 value)
{
	if (value & ~TRAPLESS_SOURCE_MASK)
		return -EINVAL;

	return kvm_riscv_trapless_route(kvm, source, value ?
					value | XTL_SOURCE_ENTRY_V : 0);
}

/* Bits of the sources that exist, in word @word of 64 sources each */
static u64 trapless_valid_sources(struct kvm *kvm, u32 word)
{
	u32 nr_sources = kvm->arch.trapless.nr_sources;
	u64 mask;

	if (word > nr_sources / 64)
		return 0;
	mask = word == nr_sources / 64 ? GENMASK_ULL(nr_sources % 64, 0) :
					 U64_MAX;

	return word ? mask : mask & ~BIT_ULL(0);
}

static int trapless_vcpu_word(struct kvm_vcpu *vcpu, u32 word, u64 *value,
			      bool write)
{
	void *file = to_trapless(vcpu)->file;
	atomic64_t *where;
	u64 valid;
	s64 old;

	if (word == TRAPLESS_VCPU_SOFT) {
		if (!write) {
			*value = kvm_riscv_vcpu_trapless_get_soft(vcpu);
			return 0;
		}
		if (*value > 1)
			return -EINVAL;
		kvm_riscv_vcpu_trapless_set_soft(vcpu, *value);
		return 0;
	}

	if (word == TRAPLESS_VCPU_THRESHOLD) {
		where = trapless_word(file, XTL_FILE_THRESHOLD);
		valid = XTL_VSTHRESHOLD_PRIO;
	} else {
		word = array_index_nospec(word, TRAPLESS_VCPU_WORDS);
		where = trapless_word(file, word * sizeof(u64));
		valid = trapless_valid_sources(vcpu->kvm, word / 2);
	}

	if (!write) {
		*value = atomic64_read(where);
		return 0;
	}
	if (*value & ~valid)
		return -EINVAL;
	/* The controller may post at the same time: only what it was asked for */
	old = atomic64_read(where);
	while (!atomic64_try_cmpxchg(where, &old, (old & ~valid) | *value))
		;

	return 0;
}

static int trapless_vcpu_attr(struct kvm *kvm, u64 attr, u64 *value, bool write)
{
	struct kvm_vcpu *vcpu = kvm_get_vcpu_by_id(kvm, attr >> 16);
	int ret;

	if (!vcpu)
		return -ENXIO;
	if (!mutex_trylock(&vcpu->mutex))
		return -EBUSY;
	ret = trapless_vcpu_word(vcpu, attr & 0xffff, value, write);
	mutex_unlock(&vcpu->mutex);

	return ret;
}

/* The calling thread's own business, so without kvm->lock */
static int trapless_grant(struct kvm *kvm, u64 value)
{
	u32 first = value & 0xffff;
	u32 count = (value >> 16) & 0xffff;

	if (!kvm_riscv_trapless_initialized(kvm))
		return -EBUSY;
	if (value >> 32 || (!count && first))
		return -EINVAL;
	if (count && (!first || first + count - 1 > kvm->arch.trapless.nr_sources))
		return -EINVAL;

	return kvm_riscv_trapless_grant_set(kvm, first, count);
}

static int trapless_ctrl(struct kvm *kvm, u64 attr)
{
	switch (attr) {
	case KVM_DEV_TRAPLESS_CTRL_INIT:
		return trapless_init(kvm);
	case KVM_DEV_TRAPLESS_CTRL_SYNC:
		if (!kvm_riscv_trapless_initialized(kvm))
			return -EBUSY;
		kvm_riscv_trapless_sync();
		kvm_riscv_trapless_resample(kvm);
		return 0;
	default:
		return -ENXIO;
	}
}

/* Groups that exist once the device has been initialized; @value is u64 */
static int trapless_access(struct kvm *kvm, struct kvm_device_attr *attr,
			   u64 *value, bool write)
{
	if (!kvm_riscv_trapless_initialized(kvm))
		return -EBUSY;

	switch (attr->group) {
	case KVM_DEV_TRAPLESS_GRP_SOURCE:
		if (write)
			return trapless_set_source(kvm, attr->attr, *value);
		*value = kvm_riscv_trapless_source(kvm, attr->attr) &
			 ~XTL_SOURCE_ENTRY_V;
		return 0;
	case KVM_DEV_TRAPLESS_GRP_LINE:
		if (!write) {
			*value = kvm_riscv_trapless_get_line(kvm, attr->attr);
			return 0;
		}
		if (*value > 1)
			return -EINVAL;
		return kvm_riscv_trapless_inject(kvm, attr->attr, *value);
	case KVM_DEV_TRAPLESS_GRP_VCPU:
		return trapless_vcpu_attr(kvm, attr->attr, value, write);
	}

	return -ENXIO;
}

static int trapless_has_attr(struct kvm_device *dev, struct kvm_device_attr *attr)
{
	switch (attr->group) {
	case KVM_DEV_TRAPLESS_GRP_CONFIG:
		if (attr->attr <= KVM_DEV_TRAPLESS_CONFIG_NATIVE_WFI)
			return 0;
		break;
	case KVM_DEV_TRAPLESS_GRP_CTRL:
		if (attr->attr <= KVM_DEV_TRAPLESS_CTRL_SYNC)
			return 0;
		break;
	case KVM_DEV_TRAPLESS_GRP_SOURCE:
	case KVM_DEV_TRAPLESS_GRP_LINE:
		if (attr->attr &&
		    attr->attr <= READ_ONCE(dev->kvm->arch.trapless.nr_sources))
			return 0;
		break;
	case KVM_DEV_TRAPLESS_GRP_VCPU:
		if (attr->attr >> 16 < KVM_MAX_VCPU_IDS &&
		    ((attr->attr & 0xffff) < TRAPLESS_VCPU_WORDS ||
		     (attr->attr & 0xffff) == TRAPLESS_VCPU_SOFT ||
		     (attr->attr & 0xffff) == TRAPLESS_VCPU_THRESHOLD))
			return 0;
		break;
	case KVM_DEV_TRAPLESS_GRP_GRANT:
		if (!attr->attr)
			return 0;
		break;
	}

	return -ENXIO;
}

static bool trapless_attr_is_u32(struct kvm_device_attr *attr)
{
	return attr->group == KVM_DEV_TRAPLESS_GRP_CONFIG ||
	       attr->group == KVM_DEV_TRAPLESS_GRP_LINE;
}

static int trapless_set_attr(struct kvm_device *dev, struct kvm_device_attr *attr)
{
	void __user *uaddr = u64_to_user_ptr(attr->addr);
	struct kvm *kvm = dev->kvm;
	u64 value = 0;
	u32 word = 0;
	int ret;

	if (attr->group == KVM_DEV_TRAPLESS_GRP_CTRL)
		ret = 0;
	else if (trapless_attr_is_u32(attr))
		ret = copy_from_user(&word, uaddr, sizeof(word));
	else
		ret = copy_from_user(&value, uaddr, sizeof(value));
	if (ret)
		return -EFAULT;
	if (trapless_attr_is_u32(attr))
		value = word;

	if (attr->group == KVM_DEV_TRAPLESS_GRP_GRANT)
		return attr->attr ? -ENXIO : trapless_grant(kvm, value);

	mutex_lock(&kvm->lock);
	ret = trapless_has_attr(dev, attr);
	if (ret)
		goto unlock;

	switch (attr->group) {
	case KVM_DEV_TRAPLESS_GRP_CONFIG:
		ret = trapless_config(kvm, attr->attr, &word, true);
		break;
	case KVM_DEV_TRAPLESS_GRP_CTRL:
		ret = trapless_ctrl(kvm, attr->attr);
		break;
	default:
		ret = trapless_access(kvm, attr, &value, true);
		break;
	}
unlock:
	mutex_unlock(&kvm->lock);

	return ret;
}

static int trapless_get_attr(struct kvm_device *dev, struct kvm_device_attr *attr)
{
	void __user *uaddr = u64_to_user_ptr(attr->addr);
	struct kvm *kvm = dev->kvm;
	u64 value = 0;
	u32 word = 0;
	int ret;

	mutex_lock(&kvm->lock);
	ret = trapless_has_attr(dev, attr);
	if (ret)
		goto unlock;

	switch (attr->group) {
	case KVM_DEV_TRAPLESS_GRP_CONFIG:
		ret = trapless_config(kvm, attr->attr, &word, false);
		break;
	case KVM_DEV_TRAPLESS_GRP_CTRL:
		/* There is nothing to read */
		ret = -ENXIO;
		break;
	case KVM_DEV_TRAPLESS_GRP_GRANT:
		value = kvm_riscv_trapless_grant_get(kvm);
		break;
	default:
		ret = trapless_access(kvm, attr, &value, false);
		if (trapless_attr_is_u32(attr))
			word = value;
		break;
	}
unlock:
	mutex_unlock(&kvm->lock);
	if (ret)
		return ret;

	if (trapless_attr_is_u32(attr))
		ret = copy_to_user(uaddr, &word, sizeof(word));
	else
		ret = copy_to_user(uaddr, &value, sizeof(value));

	return ret ? -EFAULT : 0;
}

const struct kvm_device_ops kvm_riscv_trapless_device_ops = {
	.name = "kvm-riscv-trapless",
	.create = trapless_create,
	.destroy = trapless_destroy,
	.set_attr = trapless_set_attr,
	.get_attr = trapless_get_attr,
	.has_attr = trapless_has_attr,
};
