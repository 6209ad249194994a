// SPDX-License-Identifier: Apache-2.0 OR MIT
// The first bit that is set from `start` upwards, and around.

module xtrapless_turn #(
    parameter WIDTH = 64,
    parameter BITS = 6
) (
    input  wire [WIDTH-1:0] bits,
    input  wire [BITS-1:0]  start,
    output wire             some,
    output wire [BITS-1:0]  index
);
    wire [WIDTH-1:0] from = {WIDTH{1'b1}} << start;
    wire             some_from;
    wire [BITS-1:0]  index_from;
    wire [BITS-1:0]  index_all;

    xtrapless_lowest #(.WIDTH(WIDTH), .BITS(BITS)) upper (
        .bits(bits & from), .some(some_from), .index(index_from));
    xtrapless_lowest #(.WIDTH(WIDTH), .BITS(BITS)) all (
        .bits(bits), .some(some), .index(index_all));

    assign index = some_from ? index_from : index_all;
endmodule
