# Computes for ROUNDS rounds of eight instructions in M-mode, then ends with status 0. See
# tests/profile.rs.

        .section .text
        .global _start
_start:
        li      t0, ROUNDS
        la      t1, table
1:      slli    t3, t2, 13
        xor     t2, t2, t3
        srli    t3, t2, 7
        xor     t2, t2, t3
        add     t2, t2, t0
        sd      t2, 0(t1)
        addi    t0, t0, -1
        bnez    t0, 1b
        li      t0, 1
        la      t1, tohost
        sd      t0, 0(t1)
2:      j       2b

        .section .data
        # Not in a page with code, where stores take a slow path.
        .align  12
        .global tohost
tohost: .dword  0
        .global fromhost
fromhost:
        .dword  0
table:  .dword  0
