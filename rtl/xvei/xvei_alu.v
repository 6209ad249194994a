// SPDX-License-Identifier: Apache-2.0 OR MIT
// What an atomic operation of the memory port of Xvei makes of a word, for whoever connects it.
// MEM_MARK depends on V of an entry here (VEI-8), and not on STATE as in xtrapless_alu.v.

`include "generated/haiov.vh"
`include "port.vh"

module xvei_alu (
    input  wire [1:0]  op,
    input  wire [63:0] old,
    input  wire [63:0] mask,
    input  wire [63:0] wdata,
    output wire [63:0] value
);
    wire merges = op == `MEM_MERGE || (op == `MEM_MARK && old[`HAIOV_EVENT_CTL_V]);

    assign value = op == `MEM_STORE ? wdata : merges ? (old & ~mask) | (wdata & mask) : old;
endmodule
