// SPDX-License-Identifier: GPL-2.0-only
/*
 * The KVM device for shadows of registers:
 * Documentation/virt/kvm/devices/riscv-vei.rst.
 */

#include <linux/kvm_host.h>
#include <linux/kvm_vei.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <asm/kvm_vei.h>

static int vei_create(struct kvm_device *dev, u32 type)
{
	if (dev->kvm->arch.vei.created)
		return -EEXIST;
	dev->kvm->arch.vei.created = true;

	return 0;
}

static void vei_destroy(struct kvm_device *dev)
{
	dev->kvm->arch.vei.created = false;
	kfree(dev);
}

static int vei_has_attr(struct kvm_device *dev, struct kvm_device_attr *attr)
{
	switch (attr->group) {
	case KVM_DEV_VEI_GRP_SHADOW:
	case KVM_DEV_VEI_GRP_CLEAR:
	case KVM_DEV_VEI_GRP_REQUEST:
		return 0;
	default:
		return -ENXIO;
	}
}

static int vei_set_attr(struct kvm_device *dev, struct kvm_device_attr *attr)
{
	void __user *from = u64_to_user_ptr(attr->addr);
	struct kvm *kvm = dev->kvm;
	struct kvm_vei_shadow shadow;
	u64 offset;
	int ret;

	switch (attr->group) {
	case KVM_DEV_VEI_GRP_SHADOW:
		if (copy_from_user(&shadow, from, sizeof(shadow)))
			return -EFAULT;
		mutex_lock(&kvm->slots_lock);
		ret = kvm_riscv_vei_set_shadow(kvm, attr->attr, &shadow);
		break;
	case KVM_DEV_VEI_GRP_CLEAR:
		if (copy_from_user(&offset, from, sizeof(offset)))
			return -EFAULT;
		mutex_lock(&kvm->slots_lock);
		ret = kvm_riscv_vei_add_clear(kvm, attr->attr, offset);
		break;
	default:
		return -ENXIO;
	}
	mutex_unlock(&kvm->slots_lock);

	return ret;
}

static int vei_get_attr(struct kvm_device *dev, struct kvm_device_attr *attr)
{
	u64 request;
	int ret;

	if (attr->group != KVM_DEV_VEI_GRP_REQUEST)
		return -ENXIO;

	mutex_lock(&dev->kvm->slots_lock);
	ret = kvm_riscv_vei_find_request(dev->kvm, attr->attr, &request);
	mutex_unlock(&dev->kvm->slots_lock);
	if (!ret && copy_to_user(u64_to_user_ptr(attr->addr), &request,
				 sizeof(request)))
		ret = -EFAULT;

	return ret;
}

struct kvm_device_ops kvm_riscv_vei_device_ops = {
	.name = "kvm-riscv-vei",
	.create = vei_create,
	.destroy = vei_destroy,
	.set_attr = vei_set_attr,
	.get_attr = vei_get_attr,
	.has_attr = vei_has_attr,
};
