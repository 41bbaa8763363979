//! A vector with holes: values keep their index for life, and indexes are used again.

/// Values by index.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Puts a value in and says where.
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        if let Some(index) = self.free.pop() {
            self.entries[index as usize] = Some(value);
            return index;
        }
        let index = u32::try_from(self.entries.len()).expect("fewer than 2^32 things in flight");
        self.entries.push(Some(value));
        index
    }

    /// Takes the value out.
    ///
    /// # Panics
    /// Where there is none: whoever removes knows that it is there.
    pub(crate) fn remove(&mut self, index: u32) -> T {
        let value = self.entries[index as usize].take();
        self.free.push(index);
        value.expect("an index in use names a value")
    }

    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.entries.get(index as usize)?.as_ref()
    }

    /// All values.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().flatten()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.len() == self.free.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// The values with their indexes, by rising index.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0u32..)
            .zip(&self.entries)
            .filter_map(|(index, entry)| Some((index, entry.as_ref()?)))
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, index: u32) -> &T {
        self.entries[index as usize]
            .as_ref()
            .expect("an index in use names a value")
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, index: u32) -> &mut T {
        self.entries[index as usize]
            .as_mut()
            .expect("an index in use names a value")
    }
}
