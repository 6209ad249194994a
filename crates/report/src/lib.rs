//! Tables, HTML pages and traces from ledgers.
