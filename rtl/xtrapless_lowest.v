// SPDX-License-Identifier: Apache-2.0 OR MIT
// The lowest bit that is set, as a tree; 0 if none is.

module xtrapless_lowest #(
    parameter WIDTH = 64,  // at most 2^BITS
    parameter BITS = 6
) (
    input  wire [WIDTH-1:0] bits,
    output wire             some,
    output wire [BITS-1:0]  index
);
    localparam HALF = 1 << (BITS - 1);

    assign some = |bits;

    generate
        if (WIDTH == 1) begin : one
            assign index = {BITS{1'b0}};
        end else if (BITS == 1) begin : leaf
            assign index = !bits[0] && some;
        end else if (WIDTH <= HALF) begin : narrow
            wire unused;
            assign index[BITS-1] = 1'b0;
            xtrapless_lowest #(.WIDTH(WIDTH), .BITS(BITS - 1)) lower (
                .bits(bits), .some(unused), .index(index[BITS-2:0]));
        end else begin : node
            wire some_low, some_high;
            wire [BITS-2:0] low, high;
            xtrapless_lowest #(.WIDTH(HALF), .BITS(BITS - 1)) lower (
                .bits(bits[HALF-1:0]), .some(some_low), .index(low));
            xtrapless_lowest #(.WIDTH(WIDTH - HALF), .BITS(BITS - 1)) upper (
                .bits(bits[WIDTH-1:HALF]), .some(some_high), .index(high));
            assign index = some_low ? {1'b0, low} : {some_high, high};
        end
    endgenerate
endmodule
