/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * KVM device for Xvei: registers of a RISC-V guest's emulated devices that the
 * interrupt controller answers. Doorbells need no device: KVM makes one of each
 * KVM_IOEVENTFD.
 * See Documentation/virt/kvm/devices/riscv-vei.rst.
 */
#ifndef _UAPI_LINUX_KVM_VEI_H
#define _UAPI_LINUX_KVM_VEI_H

#include <linux/kvm.h>
#include <linux/types.h>

/*
 * Shadow of a page (attribute: guest physical address, value: struct
 * kvm_vei_shadow): loads of the guest from the words that @loads names read the
 * same word of the page of this process at @page. It can be set once for each
 * guest page, for at most KVM_DEV_VEI_MAX_SHADOWS pages, and stays.
 */
#define KVM_DEV_VEI_GRP_SHADOW		0
#define KVM_DEV_VEI_MAX_SHADOWS		64

struct kvm_vei_shadow {
	__u64 page;
	/* Bit n % 64 of element n / 64: bytes 4n to 4n + 3 */
	__u64 loads[16];
};

/*
 * Stores that clear bits (attribute: guest physical address of the 4 bytes to
 * which the guest stores, value: u64 offset of 4 bytes in the shadow of the same
 * page). The bits that are 1 in what is stored become 0 there; nothing else
 * happens.
 */
#define KVM_DEV_VEI_GRP_CLEAR		1

/*
 * For drivers of guests that know Xvei (attribute: the guest physical address of a
 * doorbell, value, only read: u64). The number that the guest writes to sgenvei
 * instead of storing to the doorbell.
 */
#define KVM_DEV_VEI_GRP_REQUEST		2

#endif /* _UAPI_LINUX_KVM_VEI_H */
