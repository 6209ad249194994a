// SPDX-License-Identifier: Apache-2.0 OR MIT
// The lowest bit that is set.

module xtrapless_lowest #(
    parameter WIDTH = 64,
    parameter BITS = 6
) (
    input  wire [WIDTH-1:0] bits,
    output wire             some,
    output reg  [BITS-1:0]  index
);
    integer i;

    assign some = |bits;

    always @* begin
        index = {BITS{1'b0}};
        for (i = WIDTH - 1; i >= 0; i = i - 1)
            if (bits[i])
                index = i[BITS-1:0];
    end
endmodule
