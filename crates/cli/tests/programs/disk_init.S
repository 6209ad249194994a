# The only program of a system on a disk: says so, and powers off.
.globl _start
_start:
    li a7, 64               # write
    li a0, 1
    la a1, text
    la a2, text_end
    sub a2, a2, a1
    ecall
    li a7, 142              # reboot: power off
    li a0, 0xfee1dead
    li a1, 672274793
    li a2, 0x4321fedc
    li a3, 0
    ecall
1:  j 1b
text:
    .ascii "the system on the disk has started\n"
text_end:
