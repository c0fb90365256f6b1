//! Decompresses small files of gzip (RFC 1951 and 1952).

use alloc::vec;
use alloc::vec::Vec;

/// The first lengths and distances of their symbols, and the numbers of further bits.
const LENGTHS: [u16; 29] = [
    3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131,
    163, 195, 227, 258,
];
const LENGTH_BITS: [u8; 29] =
    [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];
const DISTANCES: [u16; 30] = [
    1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537,
    2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577,
];
/// The order in which the lengths of the codes of lengths are stored.
const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// Decompresses a file of one member without optional fields, to at most `most` bytes. Returns `None` if it is damaged,
/// larger, or of another form.
pub(super) fn decompress(file: &[u8], most: usize) -> Option<Vec<u8>> {
    let (body, trailer) =
        file.strip_prefix(&[0x1f, 0x8b, 8, 0])?.get(6..)?.split_last_chunk::<8>()?;
    let mut bits = Bits { bytes: body, at: 0 };
    let mut out = Vec::new();
    loop {
        let is_last = bits.take(1)? == 1;
        match bits.take(2)? {
            0 => {
                bits.at = bits.at.next_multiple_of(8);
                let len = bits.take(16)?;
                (bits.take(16)? == len ^ 0xffff).then_some(())?;
                for _ in 0..len {
                    out.push(u8::try_from(bits.take(8)?).ok()?);
                }
            }
            1 => {
                let lengths: Vec<u8> = (0..288)
                    .map(|symbol| match symbol {
                        144..256 => 9,
                        256..280 => 7,
                        _ => 8,
                    })
                    .collect();
                block(&mut bits, &mut out, &Code::new(&lengths), &Code::new(&[5; 30]), most)?;
            }
            2 => {
                let (literals, distances) = codes(&mut bits)?;
                block(&mut bits, &mut out, &literals, &distances, most)?;
            }
            _ => return None,
        }
        if out.len() > most {
            return None;
        }
        if is_last {
            break;
        }
    }
    let sums = [crc(&out), u32::try_from(out.len()).ok()?].map(u32::to_le_bytes);
    (sums.as_flattened() == trailer && bits.at.div_ceil(8) == body.len()).then_some(out)
}

fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1)))
    })
}

struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    fn take(&mut self, count: u8) -> Option<u32> {
        let mut value = 0;
        for shift in 0..count {
            let byte = u32::from(*self.bytes.get(self.at / 8)?);
            value |= (byte >> (self.at % 8) & 1) << shift;
            self.at += 1;
        }
        Some(value)
    }
}

/// A Huffman code: the number of symbols for each length, and the symbols in the order of their codes.
struct Code {
    counts: [u32; 16],
    symbols: Vec<u16>,
}

impl Code {
    fn new(lengths: &[u8]) -> Self {
        let mut counts = [0; 16];
        let mut symbols: Vec<(u8, u16)> = (0..).zip(lengths).map(|(at, len)| (*len, at)).collect();
        symbols.retain(|(len, _)| *len > 0);
        symbols.sort_unstable();
        for (len, _) in &symbols {
            counts[usize::from(len & 15)] += 1;
        }
        Self { counts, symbols: symbols.into_iter().map(|(_, symbol)| symbol).collect() }
    }

    fn read(&self, bits: &mut Bits<'_>) -> Option<u16> {
        let (mut code, mut first, mut index) = (0_u32, 0_u32, 0_u32);
        for count in self.counts.get(1..)? {
            code |= bits.take(1)?;
            if let Some(at) = code.checked_sub(first).filter(|at| at < count) {
                return self.symbols.get(usize::try_from(index + at).ok()?).copied();
            }
            index += count;
            first = (first + count) << 1;
            code <<= 1;
        }
        None
    }
}

/// Reads the codes of a block: of literals and lengths, and of distances.
fn codes(bits: &mut Bits<'_>) -> Option<(Code, Code)> {
    let literals = bits.take(5)? as usize + 257;
    let all = literals + bits.take(5)? as usize + 1;
    let mut lengths = [0; 19];
    for at in ORDER.get(..bits.take(4)? as usize + 4)? {
        *lengths.get_mut(*at)? = u8::try_from(bits.take(3)?).ok()?;
    }
    let code = Code::new(&lengths);
    let mut lengths: Vec<u8> = vec![];
    while lengths.len() < all {
        let (length, count) = match code.read(bits)? {
            16 => (*lengths.last()?, bits.take(2)? + 3),
            17 => (0, bits.take(3)? + 3),
            18 => (0, bits.take(7)? + 11),
            length => (u8::try_from(length).ok()?, 1),
        };
        lengths.extend((0..count).map(|_| length));
    }
    let (literals, distances) = lengths.split_at_checked(literals)?;
    Some((Code::new(literals), Code::new(distances)))
}

fn block(
    bits: &mut Bits<'_>,
    out: &mut Vec<u8>,
    literals: &Code,
    distances: &Code,
    most: usize,
) -> Option<()> {
    while out.len() <= most {
        let symbol = usize::from(literals.read(bits)?);
        match symbol {
            0..256 => out.push(u8::try_from(symbol).ok()?),
            256 => return Some(()),
            _ => {
                let index = symbol - 257;
                let len = u32::from(*LENGTHS.get(index)?) + bits.take(*LENGTH_BITS.get(index)?)?;
                let index = distances.read(bits)?;
                let more = bits.take(u8::try_from(index / 2).ok()?.saturating_sub(1))?;
                let distance = u32::from(*DISTANCES.get(usize::from(index))?) + more;
                let from = out.len().checked_sub(usize::try_from(distance).ok()?)?;
                for at in (from..).take(usize::try_from(len).ok()?) {
                    out.push(*out.get(at)?);
                }
            }
        }
    }
    None
}
