//! Receives a response body with a minimum rate: a transfer that stalls, is too slow, or is interrupted by a signal
//! ends with an error.
//!
//! The HTTP client blocks in the kernel until its own timeout. So each exchange runs in a thread that may block, while
//! the waiting thread checks for signals. An abandoned thread ends with the process.

use crate::apart::receive;
use std::io::{self, BufRead, Cursor, Read};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// The minimum number of bytes per timeout. With the default timeout of 30 s, the minimum rate is 2 KiB/s, a quarter of
/// a telephone line's rate.
pub const PROGRESS: u64 = 64 << 10;
/// The size of a chunk in bytes.
const PIECE: usize = 64 << 10;
/// The number of chunks buffered for the reader.
const PIECES: usize = 4;

/// A body that is being received.
pub struct Transfer {
    pieces: Receiver<io::Result<Vec<u8>>>,
    piece: Cursor<Vec<u8>>,
    /// Whether the end of the body was received, after which the thread sends nothing more.
    is_over: bool,
    patience: Duration,
    progress: u64,
    /// Whether the last chunk arrived too late. The error is reported after the chunk has been read.
    is_late: bool,
    /// The number of bytes received since `progress` was last reached, and the time spent waiting for them.
    came: u64,
    waited: Duration,
}

impl Transfer {
    /// Receives `body`. While the reader waits, at least `progress` bytes, or the end, must arrive in every period of
    /// length `patience`. Time that passes between the reader's calls is not counted.
    pub fn new(mut body: impl Read + Send + 'static, patience: Duration, progress: u64) -> Self {
        let (sender, pieces) = sync_channel(PIECES);
        thread::spawn(move || {
            let mut buffer = vec![0; PIECE];
            loop {
                let piece = match body.read(&mut buffer) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    result => result.map(|count| buffer[..count].to_vec()),
                };
                let last = piece.as_ref().map_or(true, Vec::is_empty);
                if sender.send(piece).is_err() || last {
                    return;
                }
            }
        });
        Self {
            pieces,
            piece: Cursor::default(),
            is_over: false,
            is_late: false,
            patience,
            progress,
            came: 0,
            waited: Duration::ZERO,
        }
    }

    fn receive(&mut self) -> io::Result<Vec<u8>> {
        if self.is_late {
            return Err(self.too_slow());
        }
        let begin = Instant::now();
        let left = self.patience.saturating_sub(self.waited);
        let piece = receive(&self.pieces, left).map_err(io::Error::other)?;
        self.waited += begin.elapsed();
        let piece = piece.unwrap_or_else(|| Err(self.too_slow()))?;
        self.came += piece.len() as u64;
        if self.came >= self.progress {
            (self.came, self.waited) = (0, Duration::ZERO);
        } else {
            self.is_late = self.waited >= self.patience && !piece.is_empty();
        }
        Ok(piece)
    }

    fn too_slow(&self) -> io::Error {
        let text = format!(
            "{} bytes came in {} s, which is too slow; --timeout gives more time",
            self.came,
            self.patience.as_secs()
        );
        io::Error::new(io::ErrorKind::TimedOut, text)
    }
}

impl Read for Transfer {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.piece.fill_buf()?.is_empty() && !self.is_over {
            self.piece = Cursor::new(self.receive()?);
            self.is_over = self.piece.get_ref().is_empty();
        }
        self.piece.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slow body: each read returns one byte after a pause. The read whose number is the field's initial value
    /// returns the end.
    struct Drip(u32);

    impl Read for Drip {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            thread::sleep(Duration::from_millis(20));
            self.0 = self.0.saturating_sub(1);
            buffer[0] = b'x';
            Ok(usize::from(self.0 > 0))
        }
    }

    #[test]
    fn an_end_is_progress_and_a_slow_reader_is_none_of_the_senders() {
        let mut short = Transfer::new(Drip(3), Duration::from_secs(20), 1000);
        let mut text = Vec::new();
        assert_eq!(short.read_to_end(&mut text).expect("short"), 2);
        assert_eq!(short.read(&mut [0]).expect("the end again"), 0);
        let mut read =
            Transfer::new(io::repeat(7).take(1 << 20), Duration::from_millis(500), u64::MAX);
        let mut piece = [0; 200_000];
        for _ in 0..4 {
            thread::sleep(Duration::from_millis(200));
            read.read_exact(&mut piece).expect("piece");
        }
    }
}
