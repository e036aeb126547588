//! The numbers behind the heads of the queues, of all lanes in one place.
//!
//! A lane's numbers stand in blocks, each of one line of memory, that lead from one to the next. Adding one touches
//! the last block and nothing else, no buffer is ever copied to grow, and a lane that is empty has no block. Blocks
//! that were emptied are used again.

/// Numbers of one block.
const BLOCK: usize = 15;
/// Blocks that are made at once.
const CHUNK: usize = 1_024;
/// No block.
const NONE: u32 = u32::MAX;

/// Blocks of all lanes.
#[derive(Debug)]
pub(super) struct Tails {
    chunks: Vec<Box<[Block]>>,
    /// Blocks that were never used begin here.
    fresh: u32,
    /// The first of those that were emptied.
    free: u32,
}

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Block {
    ids: [u32; BLOCK],
    next: u32,
}

/// The numbers of one lane: where they begin and end.
#[derive(Debug)]
pub(super) struct Tail {
    first: u32,
    last: u32,
    len: u32,
    /// Numbers of the first block begin here, those of the last end here.
    begins: u8,
    ends: u8,
}

impl Default for Tail {
    fn default() -> Self {
        Self { first: NONE, last: NONE, len: 0, begins: 0, ends: 0 }
    }
}

impl Default for Tails {
    fn default() -> Self {
        Self { chunks: Vec::new(), fresh: 0, free: NONE }
    }
}

impl Tail {
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Tails {
    fn block(&mut self, number: u32) -> &mut Block {
        &mut self.chunks[number as usize / CHUNK][number as usize % CHUNK]
    }

    fn new_block(&mut self) -> u32 {
        if self.free != NONE {
            let number = self.free;
            self.free = self.block(number).next;
            return number;
        }
        let number = self.fresh;
        if number as usize / CHUNK >= self.chunks.len() {
            self.chunks.push(vec![Block { ids: [0; BLOCK], next: NONE }; CHUNK].into());
        }
        self.fresh += 1;
        number
    }

    fn free_block(&mut self, number: u32) {
        let free = std::mem::replace(&mut self.free, number);
        self.block(number).next = free;
    }

    /// Adds a number at the end.
    pub(super) fn push_back(&mut self, tail: &mut Tail, id: u32) {
        if tail.last == NONE || usize::from(tail.ends) == BLOCK {
            let number = self.new_block();
            self.block(number).next = NONE;
            match tail.last {
                NONE => (tail.first, tail.begins) = (number, 0),
                last => self.block(last).next = number,
            }
            (tail.last, tail.ends) = (number, 0);
        }
        let at = usize::from(tail.ends);
        self.block(tail.last).ids[at] = id;
        tail.ends += 1;
        tail.len += 1;
    }

    /// Reads what [`Self::push_back`] will touch; what it returns means nothing.
    pub(super) fn look_at(&self, tail: &Tail) -> u32 {
        let (chunk, place) = (tail.last as usize / CHUNK, tail.last as usize % CHUNK);
        self.chunks.get(chunk).map_or(0, |chunk| chunk[place].next)
    }

    /// Adds a number in front.
    pub(super) fn push_front(&mut self, tail: &mut Tail, id: u32) {
        if tail.first == NONE || tail.begins == 0 {
            let number = self.new_block();
            self.block(number).next = tail.first;
            if tail.first == NONE {
                (tail.last, tail.ends) = (number, BLOCK as u8);
            }
            (tail.first, tail.begins) = (number, BLOCK as u8);
        }
        tail.begins -= 1;
        let at = usize::from(tail.begins);
        self.block(tail.first).ids[at] = id;
        tail.len += 1;
    }

    /// Takes the first number.
    pub(super) fn pop_front(&mut self, tail: &mut Tail) -> Option<u32> {
        if tail.len == 0 {
            return None;
        }
        let (number, at) = (tail.first, usize::from(tail.begins));
        let block = self.block(number);
        let (id, next) = (block.ids[at], block.next);
        tail.begins += 1;
        tail.len -= 1;
        if tail.len == 0 {
            *tail = Tail::default();
            self.free_block(number);
        } else if usize::from(tail.begins) == BLOCK {
            (tail.first, tail.begins) = (next, 0);
            self.free_block(number);
        }
        Some(id)
    }

    /// Takes the first numbers, `most` at most.
    pub(super) fn take(&mut self, tail: &mut Tail, most: usize) -> Vec<u32> {
        let count = most.min(tail.len());
        (0..count).filter_map(|_| self.pop_front(tail)).collect()
    }

    /// Moves all numbers of `from` behind those of `to`.
    pub(super) fn append(&mut self, to: &mut Tail, from: &mut Tail) {
        while let Some(id) = self.pop_front(from) {
            self.push_back(to, id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Three lanes that share their blocks are three queues.
        #[test]
        fn they_are_queues(doings in proptest::collection::vec((0_u8..8, 0_usize..3, 0_usize..40), 0..400)) {
            let mut tails = Tails::default();
            let mut lanes = [Tail::default(), Tail::default(), Tail::default()];
            let mut queues = [VecDeque::new(), VecDeque::new(), VecDeque::new()];
            for (number, (what, lane, count)) in (0_u32..).zip(doings) {
                let (tail, queue) = (&mut lanes[lane], &mut queues[lane]);
                match what {
                    0..4 => for one in 0..count as u32 {
                        tails.push_back(tail, number + one);
                        queue.push_back(number + one);
                    },
                    4 => {
                        tails.push_front(tail, number);
                        queue.push_front(number);
                    }
                    5 => prop_assert_eq!(tails.pop_front(tail), queue.pop_front()),
                    6 => {
                        let count = count.min(queue.len());
                        prop_assert_eq!(tails.take(tail, count), queue.drain(..count).collect::<Vec<_>>());
                    }
                    _ => {
                        let other = (lane + 1) % 3;
                        let mut from = std::mem::take(&mut lanes[other]);
                        tails.append(&mut lanes[lane], &mut from);
                        let mut from = std::mem::take(&mut queues[other]);
                        queues[lane].append(&mut from);
                    }
                }
                for (tail, queue) in lanes.iter().zip(&queues) {
                    prop_assert_eq!((tail.len(), tail.is_empty()), (queue.len(), queue.is_empty()));
                }
            }
            for (tail, queue) in lanes.iter_mut().zip(queues) {
                prop_assert_eq!(tails.take(tail, usize::MAX), Vec::from(queue));
            }
            // All of them are free again.
            let mut free = 0;
            let mut next = tails.free;
            while next != NONE {
                (free, next) = (free + 1, tails.block(next).next);
            }
            prop_assert_eq!(free, tails.fresh);
        }
    }
}
