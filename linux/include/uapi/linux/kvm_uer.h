/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * KVM device for Xuer: accesses of a RISC-V guest to emulated devices that a
 * handler in user mode answers, without an exit.
 * See Documentation/virt/kvm/devices/riscv-uer.rst.
 */
#ifndef _UAPI_LINUX_KVM_UER_H
#define _UAPI_LINUX_KVM_UER_H

#include <linux/kvm.h>
#include <linux/types.h>

/*
 * Regions of guest physical addresses (attribute: first address, value: u64
 * length; both multiples of the page size, at most KVM_DEV_UER_MAX_PAGES in
 * all). Memory slots must not overlap them.
 */
#define KVM_DEV_UER_GRP_REGION		0
#define KVM_DEV_UER_MAX_PAGES		64

/*
 * Handlers (attribute: KVM_DEV_UER_VCPU(vCPU id, register), value: u64), while
 * the vCPU does not run.
 *  UTVEC: address of the handler; 0 (default): the vCPU has none.
 *  USCRATCH: what it finds in uscratch.
 *  UEXIT: address of its ECALL instruction.
 *  IN_HANDLER: (read only) 1 if the vCPU is in its handler. Its registers are
 *	the handler's then; KVM_RUN with immediate_exit ends the handler.
 */
#define KVM_DEV_UER_GRP_VCPU		1
#define KVM_DEV_UER_UTVEC		0
#define KVM_DEV_UER_USCRATCH		1
#define KVM_DEV_UER_UEXIT		2
#define KVM_DEV_UER_IN_HANDLER		3
#define KVM_DEV_UER_VCPU(id, reg)	((__u64)(id) << 8 | (reg))

#endif /* _UAPI_LINUX_KVM_UER_H */
