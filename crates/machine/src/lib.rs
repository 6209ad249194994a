//! Harts, bus, controllers, devices and clock put together.
