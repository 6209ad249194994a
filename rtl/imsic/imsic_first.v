// SPDX-License-Identifier: Apache-2.0 OR MIT
// The lowest bit that is set, as a tree.

module imsic_first #(
    parameter BITS = 8
) (
    input  wire [(1<<BITS)-1:0] bits,
    output wire                 some,
    output wire [BITS-1:0]      index
);
    generate
        if (BITS == 1) begin : leaf
            assign some = |bits;
            assign index = !bits[0] && bits[1];
        end else begin : node
            localparam HALF = 1 << (BITS - 1);
            wire some_low, some_high;
            wire [BITS-2:0] low, high;
            imsic_first #(.BITS(BITS - 1)) lower (
                .bits(bits[HALF-1:0]), .some(some_low), .index(low));
            imsic_first #(.BITS(BITS - 1)) upper (
                .bits(bits[2*HALF-1:HALF]), .some(some_high), .index(high));
            assign some = some_low || some_high;
            // 0 if none is set.
            assign index = some_low ? {1'b0, low} : {some_high, high};
        end
    endgenerate
endmodule
