/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * 250 million rounds of 16 instructions without memory accesses: a xorshift
 * generator and arithmetic on its numbers. What the harness divides by is
 * INTEGER_LOOP in crates/bench/src/rows.rs.
 */

	.text
	.globl	main
main:
	li	t0, 250000000
	li	t1, 88172645463325252
	li	t2, 0
	.option	push
	.option	norvc
1:	slli	t3, t1, 13
	xor	t1, t1, t3
	srli	t3, t1, 7
	xor	t1, t1, t3
	slli	t3, t1, 17
	xor	t1, t1, t3
	add	t2, t2, t1
	andi	t3, t1, 255
	slt	t4, t1, t2
	add	t2, t2, t3
	sub	t5, t2, t4
	or	t6, t5, t3
	addw	t2, t2, t6
	sltu	t4, t5, t6
	addi	t0, t0, -1
	bnez	t0, 1b
	.option	pop
	/* The sum decides: nothing of it may be dropped */
	snez	a0, t2
	xori	a0, a0, 1
	ret

	.section .note.GNU-stack, "", @progbits
