//! Tests against registries on loopback. They contact nothing outside loopback.
