/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * KVM device for Xtrapless: trap-less virtual interrupts of a RISC-V VM.
 * See Documentation/virt/kvm/devices/riscv-trapless.rst.
 */
#ifndef _UAPI_LINUX_KVM_TRAPLESS_H
#define _UAPI_LINUX_KVM_TRAPLESS_H

#include <linux/types.h>

/*
 * Configuration, before KVM_DEV_TRAPLESS_CTRL_INIT (u32).
 *  NR_SOURCES: highest source, 1..1023, default 63.
 */
#define KVM_DEV_TRAPLESS_GRP_CONFIG	0
#define KVM_DEV_TRAPLESS_CONFIG_NR_SOURCES	0

/*
 * Control (no data).
 *  INIT: allocates the domain; every vCPU exists already.
 *  SYNC: completes when no lookup uses older table contents and all finished
 *	level interrupts have been signalled to their resample eventfds.
 */
#define KVM_DEV_TRAPLESS_GRP_CTRL	1
#define KVM_DEV_TRAPLESS_CTRL_INIT	0
#define KVM_DEV_TRAPLESS_CTRL_SYNC	1

/*
 * Source attr (1..NR_SOURCES), u64: an entry of the source table without its
 * V bit (priority in bits 18:16, LEVEL bit 32, RESAMPLE bit 33) whose bits
 * 15:0 hold the vcpu_id.  0 removes the source.  If the vcpu_id changes, what
 * is pending moves along, and so does the enable bit.
 */
#define KVM_DEV_TRAPLESS_GRP_SOURCE	2

/* Level of the line of source attr, u32: 0 or 1. */
#define KVM_DEV_TRAPLESS_GRP_LINE	3

/*
 * Word (attr & 0xffff) of the file of the vCPU with vcpu_id attr >> 16, u64:
 * 0..31 pairs of pending and enable words, 64 software interrupt pending
 * (bit 0), 65 threshold.  The vCPU must not be running.
 */
#define KVM_DEV_TRAPLESS_GRP_VCPU	4

/*
 * Grant of the calling thread, u64: first source in bits 15:0, number of
 * sources in bits 31:16; 0 sources give it back.  A thread has one grant at
 * most, of any VM.
 */
#define KVM_DEV_TRAPLESS_GRP_GRANT	5

/*
 * Wire that drives source attr, s64: the eventfd that VFIO signals for it, a
 * negative value for none.  Write only.
 */
#define KVM_DEV_TRAPLESS_GRP_WIRE	6

/*
 * SBI call of the guest (vendor space, forwarded to user space by stock KVM):
 * a0 = source, a1 = vhart, function 0: route the source to the vhart.
 */
#define KVM_SBI_EXT_TRAPLESS		0x09545250

#endif /* _UAPI_LINUX_KVM_TRAPLESS_H */
