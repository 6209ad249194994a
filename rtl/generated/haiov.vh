// SPDX-License-Identifier: Apache-2.0 OR MIT
// HA-IOV 0.4: CSRs, fields, operations and memory structures.
// Written by `cargo run -p trapless-spec` from spec/haiov.toml; do not edit.
`ifndef HAIOV_VH
`define HAIOV_VH

// CSR addresses
`define HAIOV_CSR_USTATUS               12'h880
`define HAIOV_CSR_UTVEC                 12'h885
`define HAIOV_CSR_USCRATCH              12'h8c0
`define HAIOV_CSR_UEPC                  12'h8c1
`define HAIOV_CSR_UCAUSE                12'h8c2
`define HAIOV_CSR_UTVAL                 12'h8c3
`define HAIOV_CSR_UTINST                12'h8ca
`define HAIOV_CSR_HUEDELEG              12'h6d0
`define HAIOV_CSR_SGENVEI               12'h5d0
`define HAIOV_CSR_HVEITAB               12'h6d1
`define HAIOV_CSR_HVEIQ                 12'h6d2
`define HAIOV_CSR_HVEICLAIM             12'h6d3
`define HAIOV_CSR_HGENVEI               12'h6d4
`define HAIOV_CSR_SUSCRATCH             12'h5d1
`define HAIOV_CSR_SUATP                 12'h5d2
`define HAIOV_CSR_HUCSAVE               12'h6d5
`define HAIOV_CSR_HUCONTEXT             12'h6d6
`define HAIOV_CSR_HUCSHARE              12'h6d7

// Fields of ustatus
`define HAIOV_USTATUS_UC                11
`define HAIOV_USTATUS_UH                10
`define HAIOV_USTATUS_UPV               9
`define HAIOV_USTATUS_UPP               8
`define HAIOV_USTATUS_UPIE              4
`define HAIOV_USTATUS_UIE               0
`define HAIOV_USTATUS_FIELDS            64'h0000000000000f11

// Fields of utvec
`define HAIOV_UTVEC_BASE                63:2
`define HAIOV_UTVEC_MODE                1:0
`define HAIOV_UTVEC_FIELDS              64'hffffffffffffffff

// Fields of uscratch
`define HAIOV_USCRATCH_VALUE            63:0
`define HAIOV_USCRATCH_FIELDS           64'hffffffffffffffff

// Fields of uepc
`define HAIOV_UEPC_ADDRESS              63:0
`define HAIOV_UEPC_FIELDS               64'hffffffffffffffff

// Fields of ucause
`define HAIOV_UCAUSE_INTERRUPT          63
`define HAIOV_UCAUSE_CODE               62:0
`define HAIOV_UCAUSE_FIELDS             64'hffffffffffffffff

// Fields of utval
`define HAIOV_UTVAL_VALUE               63:0
`define HAIOV_UTVAL_FIELDS              64'hffffffffffffffff

// Fields of utinst
`define HAIOV_UTINST_VALUE              63:0
`define HAIOV_UTINST_FIELDS             64'hffffffffffffffff

// Fields of huedeleg
`define HAIOV_HUEDELEG_STORE_MMIO       25
`define HAIOV_HUEDELEG_LOAD_MMIO        24
`define HAIOV_HUEDELEG_STORE_GUEST      23
`define HAIOV_HUEDELEG_VIRTUAL          22
`define HAIOV_HUEDELEG_LOAD_GUEST       21
`define HAIOV_HUEDELEG_ECALL_VS         10
`define HAIOV_HUEDELEG_FIELDS           64'h0000000003e00400

// Fields of sgenvei
`define HAIOV_SGENVEI_REQUEST           15:0
`define HAIOV_SGENVEI_FIELDS            64'h000000000000ffff

// Fields of hveitab
`define HAIOV_HVEITAB_V                 63
`define HAIOV_HVEITAB_PPN               55:12
`define HAIOV_HVEITAB_SIZE              3:0
`define HAIOV_HVEITAB_FIELDS            64'h80fffffffffff00f

// Fields of hveiq
`define HAIOV_HVEIQ_EN                  63
`define HAIOV_HVEIQ_FLT                 62
`define HAIOV_HVEIQ_PPN                 55:12
`define HAIOV_HVEIQ_SIZE                3:0
`define HAIOV_HVEIQ_FIELDS              64'hc0fffffffffff00f

// Fields of hveiclaim
`define HAIOV_HVEICLAIM_V               63
`define HAIOV_HVEICLAIM_OVF             62
`define HAIOV_HVEICLAIM_CTX             61
`define HAIOV_HVEICLAIM_ID              31:0
`define HAIOV_HVEICLAIM_FIELDS          64'he0000000ffffffff

// Fields of hgenvei
`define HAIOV_HGENVEI_ENTRY             55:4
`define HAIOV_HGENVEI_FIELDS            64'h00fffffffffffff0

// Fields of suscratch
`define HAIOV_SUSCRATCH_VALUE           63:0
`define HAIOV_SUSCRATCH_FIELDS          64'hffffffffffffffff

// Fields of suatp
`define HAIOV_SUATP_VALUE               63:0
`define HAIOV_SUATP_FIELDS              64'hffffffffffffffff

// Fields of hucsave
`define HAIOV_HUCSAVE_V                 63
`define HAIOV_HUCSAVE_ADDRESS           55:9
`define HAIOV_HUCSAVE_FIELDS            64'h80fffffffffffe00

// Fields of hucontext
`define HAIOV_HUCONTEXT_ADDRESS         55:7
`define HAIOV_HUCONTEXT_FIELDS          64'h00ffffffffffff80

// Fields of hucshare
`define HAIOV_HUCSHARE_FULL             63
`define HAIOV_HUCSHARE_SHIFT            36:32
`define HAIOV_HUCSHARE_LIMIT            31:0
`define HAIOV_HUCSHARE_FIELDS           64'h8000001fffffffff

// Exception codes that the extension adds
`define HAIOV_CAUSE_LOAD_MMIO           24
`define HAIOV_CAUSE_STORE_MMIO          25
`define HAIOV_CAUSE_HANDLER_END         26

// Type of a G-stage leaf (bits 58:57 of the entry)
`define HAIOV_LEAF_MEMORY               0
`define HAIOV_LEAF_MMIO                 1
`define HAIOV_LEAF_DOORBELL             2

// Who is told of an event (`KIND` of an entry)
`define HAIOV_TARGET_HART               0
`define HAIOV_TARGET_CONTEXT            1

// Limits and numbers
`define HAIOV_HSTATUS_HUR_BIT           10
`define HAIOV_LEAF_TYPE_SHIFT           57
`define HAIOV_VEI_IRQ                   25
`define HAIOV_MAX_DOORBELLS             240

// Entry of an event table: sizes and offsets in bytes
`define HAIOV_EVENT_SIZE                16
`define HAIOV_EVENT_CTL                 0
`define HAIOV_EVENT_CTL_ID              63:32
`define HAIOV_EVENT_CTL_HART            31:16
`define HAIOV_EVENT_CTL_VECTOR          13:8
`define HAIOV_EVENT_CTL_KIND            5:4
`define HAIOV_EVENT_CTL_M               2
`define HAIOV_EVENT_CTL_P               1
`define HAIOV_EVENT_CTL_V               0
`define HAIOV_EVENT_CTL_FIELDS          64'hffffffffffff3f37
`define HAIOV_EVENT_TARGET              8
`define HAIOV_EVENT_TARGET_ADDRESS      55:7
`define HAIOV_EVENT_TARGET_FIELDS       64'h00ffffffffffff80

// User context (Xhcs): sizes and offsets in bytes
`define HAIOV_CONTEXT_SIZE              128
`define HAIOV_CONTEXT_CTL               0
`define HAIOV_CONTEXT_CTL_ID            63:32
`define HAIOV_CONTEXT_CTL_HART          31:16
`define HAIOV_CONTEXT_CTL_OWN           4
`define HAIOV_CONTEXT_CTL_SS            3
`define HAIOV_CONTEXT_CTL_M             2
`define HAIOV_CONTEXT_CTL_N             1
`define HAIOV_CONTEXT_CTL_V             0
`define HAIOV_CONTEXT_CTL_FIELDS        64'hffffffffffff001f
`define HAIOV_CONTEXT_PENDING           8
`define HAIOV_CONTEXT_UTVEC             16
`define HAIOV_CONTEXT_USCRATCH          24
`define HAIOV_CONTEXT_SUATP             32
`define HAIOV_CONTEXT_SUSCRATCH         40
`define HAIOV_CONTEXT_GRANT             48
`define HAIOV_CONTEXT_BUDGET            56

// Save area of a hart (Xhcs): sizes and offsets in bytes
`define HAIOV_SAVE_SIZE                 512
`define HAIOV_SAVE_PC                   0
`define HAIOV_SAVE_X                    8
`define HAIOV_SAVE_X_STRIDE             8
`define HAIOV_SAVE_USTATUS              256
`define HAIOV_SAVE_UTVEC                264
`define HAIOV_SAVE_USCRATCH             272
`define HAIOV_SAVE_GRANT                280
`define HAIOV_SAVE_ELP                  288

// Doorbell page: sizes and offsets in bytes
`define HAIOV_BELL_SIZE                 4096
`define HAIOV_BELL_HEADER               0
`define HAIOV_BELL_HEADER_COUNT         15:8
`define HAIOV_BELL_HEADER_MMIO          1
`define HAIOV_BELL_HEADER_V             0
`define HAIOV_BELL_HEADER_FIELDS        64'h000000000000ff03
`define HAIOV_BELL_SHADOW               8
`define HAIOV_BELL_SHADOW_PPN           55:12
`define HAIOV_BELL_SHADOW_V             0
`define HAIOV_BELL_SHADOW_FIELDS        64'h00fffffffffff001
`define HAIOV_BELL_LOADS                128
`define HAIOV_BELL_LOADS_STRIDE         8
`define HAIOV_BELL_MATCH                256
`define HAIOV_BELL_MATCH_STRIDE         16
`define HAIOV_BELL_MATCH_UNIT           57:48
`define HAIOV_BELL_MATCH_REQUEST        47:32
`define HAIOV_BELL_MATCH_OFFSET         27:16
`define HAIOV_BELL_MATCH_CLEAR          6
`define HAIOV_BELL_MATCH_POST           5
`define HAIOV_BELL_MATCH_DATA           4
`define HAIOV_BELL_MATCH_ANY            3
`define HAIOV_BELL_MATCH_WIDTH          2:1
`define HAIOV_BELL_MATCH_V              0
`define HAIOV_BELL_MATCH_FIELDS         64'h03ffffff0fff007f
`define HAIOV_BELL_VALUE                264
`define HAIOV_BELL_VALUE_STRIDE         16

`endif // HAIOV_VH
