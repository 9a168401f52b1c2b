//! ipu-exchange
