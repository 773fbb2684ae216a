//! Both versions as they are found.
