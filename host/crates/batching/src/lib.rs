//! batching
