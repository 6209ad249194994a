// SPDX-License-Identifier: Apache-2.0 OR MIT
// The steps of the engine of Xvei, for the inside of a module.

localparam [3:0] IDLE = 4'd0;
localparam [3:0] START = 4'd1;
localparam [3:0] HEADER = 4'd2;
localparam [3:0] SHADOW = 4'd3;
localparam [3:0] LOADS = 4'd4;
localparam [3:0] READ = 4'd5;     // the shadow
localparam [3:0] MATCH = 4'd6;
localparam [3:0] VALUE = 4'd7;
localparam [3:0] DECIDE = 4'd8;   // What the doorbell that matches is to do
localparam [3:0] CHECK = 4'd9;    // that its event has a valid entry
localparam [3:0] CLEAR = 4'd10;
localparam [3:0] MARK = 4'd11;    // P
localparam [3:0] PUSH = 4'd12;
localparam [3:0] POP = 4'd13;
localparam [3:0] FINISH = 4'd14;
