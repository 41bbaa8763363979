//! What was received of a connection and not yet understood.

/// Received bytes in memory that is allocated once.
#[derive(Debug)]
pub struct Input {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Input {
    /// Nothing yet, and room for so many bytes: for the longest message, and one more.
    pub fn with_size(size_bytes: usize) -> Self {
        Self {
            bytes: vec![0; size_bytes].into_boxed_slice(),
            start: 0,
            end: 0,
        }
    }

    /// What is to be looked at.
    pub fn held(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// So many of the bytes that are held were looked at.
    ///
    /// # Panics
    /// Where there are not so many.
    pub fn consume(&mut self, len: usize) {
        assert!(len <= self.held().len(), "only what is held is looked at");
        self.start += len;
        if self.start == self.end {
            self.clear();
        }
    }

    /// What is held is forgotten.
    pub const fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    /// Where more goes. It is not empty as long as all that can be read of what is held was.
    pub fn room(&mut self) -> &mut [u8] {
        if self.start > 0 {
            // At most one message lies here, and mostly none.
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        &mut self.bytes[self.end..]
    }

    /// So many bytes were put there.
    ///
    /// # Panics
    /// Where there was no room for them.
    pub fn receive(&mut self, len: usize) {
        assert!(len <= self.bytes.len() - self.end, "there is room for it");
        self.end += len;
    }
}

#[cfg(test)]
mod tests;
