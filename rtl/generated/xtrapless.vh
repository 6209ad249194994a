// SPDX-License-Identifier: Apache-2.0 OR MIT
// Xtrapless 0.3: CSRs, fields, operations and memory structures.
// Written by `cargo run -p trapless-spec` from spec/registers.toml; do not edit.
`ifndef XTL_VH
`define XTL_VH

// CSR addresses
`define XTL_CSR_UGENVSEI                12'h800
`define XTL_CSR_SGENIPI                 12'h5d8
`define XTL_CSR_VSCLAIM                 12'h5d9
`define XTL_CSR_VSENABLE                12'h5da
`define XTL_CSR_VSTHRESHOLD             12'h5db
`define XTL_CSR_HIFMAP                  12'h6c0
`define XTL_CSR_HTLCFG                  12'h6c1
`define XTL_CSR_HGENVSI                 12'h6c2
`define XTL_CSR_HNOTIFY                 12'h6c3
`define XTL_CSR_HGRANT                  12'h6c4
`define XTL_CSR_HNQBASE                 12'h6c5
`define XTL_CSR_HVTABLEBASE             12'h6c6

// Fields of ugenvsei
`define XTL_UGENVSEI_OP                 63:60
`define XTL_UGENVSEI_ID                 15:0
`define XTL_UGENVSEI_FIELDS             64'hf00000000000ffff

// Fields of sgenipi
`define XTL_SGENIPI_BASE                47:32
`define XTL_SGENIPI_MASK                31:0
`define XTL_SGENIPI_FIELDS              64'h0000ffffffffffff

// Fields of vsclaim
`define XTL_VSCLAIM_ID                  15:0
`define XTL_VSCLAIM_FIELDS              64'h000000000000ffff

// Fields of vsenable
`define XTL_VSENABLE_E                  63
`define XTL_VSENABLE_ID                 15:0
`define XTL_VSENABLE_FIELDS             64'h800000000000ffff

// Fields of vsthreshold
`define XTL_VSTHRESHOLD_PRIO            2:0
`define XTL_VSTHRESHOLD_FIELDS          64'h0000000000000007

// Fields of hifmap
`define XTL_HIFMAP_V                    63
`define XTL_HIFMAP_STATE                57:56
`define XTL_HIFMAP_DOM                  47:32
`define XTL_HIFMAP_VHART                15:0
`define XTL_HIFMAP_FIELDS               64'h8300ffff0000ffff

// Fields of htlcfg
`define XTL_HTLCFG_VERSION              63:60
`define XTL_HTLCFG_FLT                  9
`define XTL_HTLCFG_ERR                  8
`define XTL_HTLCFG_ANY                  1
`define XTL_HTLCFG_EN                   0
`define XTL_HTLCFG_FIELDS               64'hf000000000000303

// Fields of hgenvsi
`define XTL_HGENVSI_OP                  63:60
`define XTL_HGENVSI_DOM                 47:32
`define XTL_HGENVSI_ID                  15:0
`define XTL_HGENVSI_FIELDS              64'hf000ffff0000ffff

// Fields of hnotify
`define XTL_HNOTIFY_V                   63
`define XTL_HNOTIFY_OVF                 62
`define XTL_HNOTIFY_KIND                57:56
`define XTL_HNOTIFY_DOM                 47:32
`define XTL_HNOTIFY_ID                  15:0
`define XTL_HNOTIFY_FIELDS              64'hc300ffff0000ffff

// Fields of hgrant
`define XTL_HGRANT_V                    63
`define XTL_HGRANT_DOM                  47:32
`define XTL_HGRANT_COUNT                31:16
`define XTL_HGRANT_FIRST                15:0
`define XTL_HGRANT_FIELDS               64'h8000ffffffffffff

// Fields of hnqbase
`define XTL_HNQBASE_EN                  63
`define XTL_HNQBASE_PPN                 55:12
`define XTL_HNQBASE_SIZE                3:0
`define XTL_HNQBASE_FIELDS              64'h80fffffffffff00f

// Fields of hvtablebase
`define XTL_HVTABLEBASE_V               63
`define XTL_HVTABLEBASE_PPN             55:12
`define XTL_HVTABLEBASE_SIZE            4:0
`define XTL_HVTABLEBASE_FIELDS          64'h80fffffffffff01f

// Kinds of notifications (hnotify.KIND)
`define XTL_KIND_SOURCE                 0
`define XTL_KIND_WAKE                   1
`define XTL_KIND_YIELD                  2
`define XTL_KIND_RESAMPLE               3

// Operations of ugenvsei and hgenvsi (field OP)
`define XTL_OP_EDGE                     0
`define XTL_OP_ASSERT                   1
`define XTL_OP_DEASSERT                 2
`define XTL_OP_SOFT                     3
`define XTL_OP_EVAL                     4
`define XTL_OP_SYNC                     5

// State of a vhart (hifmap.STATE and the state field of its file)
`define XTL_STATE_STOPPED               0
`define XTL_STATE_PREEMPTED             1
`define XTL_STATE_HALTED                2
`define XTL_STATE_LOADED                3

// Limits and numbers
`define XTL_NOTIFY_IRQ                  24
`define XTL_VERSION                     1
`define XTL_MAX_SOURCES                 1023
`define XTL_MAX_VHARTS                  1024
`define XTL_WINDOW_BYTES                4096
`define XTL_MAX_WINDOWS                 65536

// Entry of the domain table: sizes and offsets in bytes
`define XTL_DOMAIN_SIZE                 32
`define XTL_DOMAIN_CONFIG               0
`define XTL_DOMAIN_CONFIG_V             63
`define XTL_DOMAIN_CONFIG_HOST          62
`define XTL_DOMAIN_CONFIG_SOURCES       31:16
`define XTL_DOMAIN_CONFIG_VHARTS        15:0
`define XTL_DOMAIN_CONFIG_FIELDS        64'hc0000000ffffffff
`define XTL_DOMAIN_VHART_TABLE          8
`define XTL_DOMAIN_SOURCE_TABLE         16
`define XTL_DOMAIN_LINES                24

// Entry of a vhart table: sizes and offsets in bytes
`define XTL_VHART_SIZE                  8
`define XTL_VHART_ENTRY                 0
`define XTL_VHART_ENTRY_V               63
`define XTL_VHART_ENTRY_FILE            55:10
`define XTL_VHART_ENTRY_FIELDS          64'h80fffffffffffc00

// Entry of a source table, indexed by source: sizes and offsets in bytes
`define XTL_SOURCE_SIZE                 8
`define XTL_SOURCE_ENTRY                0
`define XTL_SOURCE_ENTRY_V              63
`define XTL_SOURCE_ENTRY_RESAMPLE       33
`define XTL_SOURCE_ENTRY_LEVEL          32
`define XTL_SOURCE_ENTRY_PRIO           18:16
`define XTL_SOURCE_ENTRY_VHART          15:0
`define XTL_SOURCE_ENTRY_FIELDS         64'h800000030007ffff

// What is pending for one vhart. Bytes 0..512 have the layout of an AIA memory-resident interrupt file (MRIF): sizes and offsets in bytes
`define XTL_FILE_SIZE                   1024
`define XTL_FILE_PENDING                0
`define XTL_FILE_PENDING_STRIDE         16
`define XTL_FILE_ENABLE                 8
`define XTL_FILE_ENABLE_STRIDE          16
`define XTL_FILE_CTL                    512
`define XTL_FILE_CTL_HART               31:16
`define XTL_FILE_CTL_STATE              9:8
`define XTL_FILE_CTL_ON                 1
`define XTL_FILE_CTL_SOFT               0
`define XTL_FILE_CTL_FIELDS             64'h00000000ffff0303
`define XTL_FILE_THRESHOLD              520

// Entry of the window table, indexed by message window: sizes and offsets in bytes
`define XTL_WINDOW_SIZE                 16
`define XTL_WINDOW_ENTRY                0
`define XTL_WINDOW_ENTRY_V              63
`define XTL_WINDOW_ENTRY_DOM            47:32
`define XTL_WINDOW_ENTRY_COUNT          31:16
`define XTL_WINDOW_ENTRY_FIRST          15:0
`define XTL_WINDOW_ENTRY_FIELDS         64'h8000ffffffffffff
`define XTL_WINDOW_DROPPED              8

// Registers of message windows and wired windows, in a region of I/O: sizes and offsets in bytes
`define XTL_WCONTROL_SIZE               16384
`define XTL_WCONTROL_CAP                0
`define XTL_WCONTROL_CAP_VERSION        63:60
`define XTL_WCONTROL_CAP_WIRES          25:16
`define XTL_WCONTROL_CAP_WINDOWS        4:0
`define XTL_WCONTROL_CAP_FIELDS         64'hf000000003ff001f
`define XTL_WCONTROL_DOMAINS            8
`define XTL_WCONTROL_DOMAINS_V          63
`define XTL_WCONTROL_DOMAINS_PPN        55:12
`define XTL_WCONTROL_DOMAINS_SIZE       4:0
`define XTL_WCONTROL_DOMAINS_FIELDS     64'h80fffffffffff01f
`define XTL_WCONTROL_TABLE              16
`define XTL_WCONTROL_TABLE_V            63
`define XTL_WCONTROL_TABLE_PPN          55:12
`define XTL_WCONTROL_TABLE_SIZE         4:0
`define XTL_WCONTROL_TABLE_FIELDS       64'h80fffffffffff01f
`define XTL_WCONTROL_STATUS             24
`define XTL_WCONTROL_STATUS_FLT         0
`define XTL_WCONTROL_STATUS_FIELDS      64'h0000000000000001
`define XTL_WCONTROL_WIRE               8192
`define XTL_WCONTROL_WIRE_STRIDE        8
`define XTL_WCONTROL_WIRE_V             63
`define XTL_WCONTROL_WIRE_DOM           47:32
`define XTL_WCONTROL_WIRE_ID            15:0
`define XTL_WCONTROL_WIRE_FIELDS        64'h8000ffff0000ffff

`endif // XTL_VH
