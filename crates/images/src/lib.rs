//! Kernels, firmware and guest images from Debian packages.
