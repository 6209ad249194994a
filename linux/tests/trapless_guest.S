/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Guest of trapless_test: enables every source, then waits and counts what it is
 * interrupted with. Copied to where it runs, so nothing may be addressed
 * absolutely.
 *
 * a0 = hart, a1 = struct shared of vm.h
 */

	.section .rodata
	.option	norvc
	.option	norelax
	.balign	4
	.globl	guest_begin, guest_end
guest_begin:
	mv	s1, a1
	lla	t0, guest_trap
	csrw	stvec, t0
	li	t0, 16		/* enable every source */
1:	li	t1, 1
	slli	t1, t1, 63
	or	t1, t1, t0
	csrw	0x5c2, t1
	addi	t0, t0, -1
	bnez	t0, 1b
	csrsi	sstatus, 2
2:	ld	t0, 0(s1)
	csrw	sie, t0
	ld	t0, 48(s1)
	addi	t0, t0, 1
	sd	t0, 48(s1)
	ld	t0, 8(s1)
	beqz	t0, 5f
	ld	t1, 16(s1)
	li	t2, 1
	bne	t0, t2, 3f
	ld	t2, 200(s1)
	csrw	0x5c0, t1
	addi	t2, t2, -1
	bgtz	t2, .-8
	j	4f
3:	addi	t2, t2, 2
	beq	t0, t2, 10f
	csrw	0x6c2, t1
4:	sd	zero, 8(s1)
	j	2b
5:	wfi
	j	2b
10:	ld	t2, 208(s1)		/* a request: its number, and a kick */
	addi	t2, t2, 1
	sd	t2, 208(s1)
	fence	rw, ow
	sw	zero, 0(t1)
11:	ld	t0, 216(s1)		/* the answer */
	bne	t0, t2, 11b
	ld	t2, 200(s1)
	addi	t2, t2, -1
	sd	t2, 200(s1)
	bgtz	t2, 10b
	j	4b
	.balign	4
guest_trap:
	csrw	sscratch, t0
	csrr	t0, scause
	bgez	t0, 9f
	andi	t0, t0, 15
	addi	t0, t0, -9
	beqz	t0, 7f
	csrci	sip, 2
	ld	t0, 24(s1)
	addi	t0, t0, 1
	sd	t0, 24(s1)
	j	8f
7:	csrr	s2, 0x5c1		/* claim */
	beqz	s2, 8f
	slli	s3, s2, 3
	add	s3, s3, s1
	ld	t0, 56(s3)
	addi	t0, t0, 1
	sd	t0, 56(s3)
6:	ld	t0, 192(s1)
	bnez	t0, 6b
	csrw	0x5c1, s2		/* complete */
	j	7b
8:	csrr	t0, sscratch
	sret
9:	sd	t0, 40(s1)
	ld	t0, 32(s1)
	addi	t0, t0, 1
	sd	t0, 32(s1)
	csrr	t0, sepc
	addi	t0, t0, 4
	csrw	sepc, t0
	j	8b
guest_end:
