/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Guest of kvm-cost: asks for a number of rounds, does them, asks again. Copied
 * to where it runs, so nothing may be addressed absolutely.
 *
 * s0 = address of the control register: a load from it returns the rounds
 * s1 = what to do: 0 hypercall, 1 MMIO, 2 write of stimecmp, 3 nothing
 */

	.section .rodata
	.option	norvc
	.option	norelax
	.balign	4
	.globl	guest_begin, guest_end
guest_begin:
	csrw	sie, zero
1:	ld	s2, 0(s0)
	li	t0, 1
	bltu	s1, t0, 2f
	beq	s1, t0, 3f
	li	t0, 2
	beq	s1, t0, 4f
5:	addi	s2, s2, -1
	bnez	s2, 5b
	j	1b
2:	li	a7, 0x10		/* SBI base extension ... */
	li	a6, 0			/* ... specification version: KVM answers */
	ecall
	addi	s2, s2, -1
	bnez	s2, 2b
	j	1b
3:	ld	t0, 8(s0)
	addi	s2, s2, -1
	bnez	s2, 3b
	j	1b
4:	li	t1, -1
	srli	t1, t1, 1
6:	sub	t0, t1, s2
	csrw	0x14d, t0		/* stimecmp, here vstimecmp */
	addi	s2, s2, -1
	bnez	s2, 6b
	j	1b
guest_end:
