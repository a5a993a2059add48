//! Thrift's compact protocol, as far as the footer and the heads of pages of a file of Parquet need it.

const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// What is written, and the last field of the structure that is open.
#[derive(Default, Debug)]
pub(super) struct Thrift {
    bytes: Vec<u8>,
    last: u8,
}

/// A number in groups of seven bits, the lowest first.
pub(super) fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(u8::try_from(number & 0x7f).expect("seven bits") | 0x80);
        number >>= 7;
    }
    out.push(u8::try_from(number).expect("seven bits"));
}

impl Thrift {
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// A structure by itself, or as an item of a list.
    pub(super) fn structure(&mut self, fill: impl FnOnce(&mut Self)) {
        let before = core::mem::take(&mut self.last);
        fill(self);
        self.bytes.push(0);
        self.last = before;
    }

    pub(super) fn field_structure(&mut self, field: u8, fill: impl FnOnce(&mut Self)) {
        self.begin(field, STRUCT);
        self.structure(fill);
    }

    pub(super) fn i32(&mut self, field: u8, number: i64) {
        self.begin(field, I32);
        self.number(number);
    }

    pub(super) fn i64(&mut self, field: u8, number: i64) {
        self.begin(field, I64);
        self.number(number);
    }

    pub(super) fn text(&mut self, field: u8, text: &str) {
        self.begin(field, BINARY);
        self.binary(text);
    }

    pub(super) fn list_of_structures(
        &mut self,
        field: u8,
        count: usize,
        mut fill: impl FnMut(usize, &mut Self),
    ) {
        self.list(field, count, STRUCT);
        (0..count).for_each(|at| fill(at, self));
    }

    pub(super) fn list_of_i32(&mut self, field: u8, numbers: &[i64]) {
        self.list(field, numbers.len(), I32);
        numbers.iter().for_each(|number| self.number(*number));
    }

    pub(super) fn list_of_texts(&mut self, field: u8, texts: &[String]) {
        self.list(field, texts.len(), BINARY);
        texts.iter().for_each(|text| self.binary(text));
    }

    /// A structure that is written already.
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Fields come in the order of their numbers.
    fn begin(&mut self, field: u8, kind: u8) {
        assert!(field > self.last && field - self.last < 16);
        self.bytes.push((field - self.last) << 4 | kind);
        self.last = field;
    }

    fn list(&mut self, field: u8, count: usize, kind: u8) {
        self.begin(field, LIST);
        match u8::try_from(count) {
            Ok(count) if count < 15 => self.bytes.push(count << 4 | kind),
            _ => {
                self.bytes.push(0xf0 | kind);
                varint(count as u64, &mut self.bytes);
            }
        }
    }

    /// A number whose sign is in its lowest bit.
    fn number(&mut self, number: i64) {
        varint((number.cast_unsigned() << 1) ^ (number >> 63).cast_unsigned(), &mut self.bytes);
    }

    fn binary(&mut self, text: &str) {
        varint(text.len() as u64, &mut self.bytes);
        self.bytes.extend_from_slice(text.as_bytes());
    }
}
