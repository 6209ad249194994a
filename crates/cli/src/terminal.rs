//! The user's terminal as a machine's console.
