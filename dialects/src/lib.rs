//! ipu-dialects
