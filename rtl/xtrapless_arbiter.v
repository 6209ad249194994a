// SPDX-License-Identifier: Apache-2.0 OR MIT
// Whose job is next: accesses and posts of all harts in turn, so that each waits for at most one
// job of every other kind and hart (ORD-12).
//
// A SYNC waits until no hart has posts left of an sgenipi that has retired: from its turn on, only
// posts are carried out, and no new sgenipi is taken (ORD-11).

module xtrapless_arbiter #(
    parameter HARTS = 4,
    parameter BITS = 2
) (
    input  wire             clk,
    input  wire             reset,
    input  wire [HARTS-1:0] want,
    input  wire [HARTS-1:0] want_sync,   // Those of `want` that ask for a SYNC
    input  wire [HARTS-1:0] want_post,
    input  wire             take,
    output wire             valid,
    output wire [BITS-1:0]  hart,
    output wire             post,
    output wire             hold_posts
);
    // Bit 2h is an access of hart h, bit 2h+1 a post.
    wire [2*HARTS-1:0] all;
    wire [2*HARTS-1:0] posts;
    genvar h;
    generate
        for (h = 0; h < HARTS; h = h + 1) begin : interleave
            assign all[2*h] = want[h];
            assign all[2*h+1] = want_post[h];
            assign posts[2*h] = 1'b0;
            assign posts[2*h+1] = want_post[h];
        end
    endgenerate

    reg  [BITS:0] start;
    wire [BITS:0] first;
    wire [BITS:0] first_post;
    wire          some_post;

    xtrapless_turn #(.WIDTH(2 * HARTS), .BITS(BITS + 1)) turn (
        .bits(all), .start(start), .some(valid), .index(first));
    xtrapless_turn #(.WIDTH(2 * HARTS), .BITS(BITS + 1)) post_turn (
        .bits(posts), .start(start), .some(some_post), .index(first_post));

    wire sync = valid && !first[0] && want_sync[first[BITS:1]];
    assign hold_posts = sync;
    wire [BITS:0] chosen = sync && some_post ? first_post : first;
    assign hart = chosen[BITS:1];
    assign post = chosen[0];

    always @(posedge clk) begin
        if (reset)
            start <= {(BITS + 1){1'b0}};
        else if (take && !(sync && some_post))
            start <= {{(31 - BITS){1'b0}}, chosen} == 2 * HARTS - 1 ? {(BITS + 1){1'b0}}
                : chosen + 1'b1;
    end
endmodule
