//! Entries as text: an object of JSON each, or a line of CSV. A text that is no UTF-8 stays what it is: in CSV its bytes are as they are, in
//! JSON each of those that are none is `\udc80` to `\udcff`, as Python has it.

use dolmen_rntuple::{Array, Lists, Values};
use std::io::Write as _;

/// Adds a value as JSON. What is no number is a text, as `"NaN"` and `"-Infinity"` are.
pub(super) fn json(array: &Array, at: usize, out: &mut Vec<u8>) {
    match array {
        Array::Values(values) => number(values, at, out),
        Array::Lists { of: Lists::Text, offsets, content } => text(text_at(offsets, content, at), out),
        Array::Lists { offsets, content, .. } => {
            let place = |offset: i64| usize::try_from(offset).expect("offsets do not fall below 0");
            list(content, place(offsets[at])..place(offsets[at + 1]), out);
        }
        Array::Repeated { count, content, .. } => {
            let count = usize::try_from(*count).expect("all of them are in memory");
            list(content, at * count..(at + 1) * count, out);
        }
        Array::Record { fields, .. } => object(fields.iter().map(|(name, field)| (&**name, field)), at, out),
        Array::Variant { tags, index, contents } => match usize::try_from(tags[at]) {
            Ok(which) => {
                let place = usize::try_from(index[at]).expect("it is in memory");
                json(&contents[which], place, out);
            }
            Err(_none) => out.extend_from_slice(b"null"),
        },
    }
}

/// Adds an entry of several fields as an object.
pub(super) fn object<'a>(
    fields: impl IntoIterator<Item = (&'a str, &'a Array)>,
    at: usize,
    out: &mut Vec<u8>,
) {
    out.push(b'{');
    for (nth, (name, field)) in fields.into_iter().enumerate() {
        out.extend_from_slice(if nth == 0 { b"" } else { b"," });
        text(name.as_bytes(), out);
        out.push(b':');
        json(field, at, out);
    }
    out.push(b'}');
}

/// Adds an entry of several fields as a line of CSV: numbers and texts as they are, what has several values as JSON.
pub(super) fn csv<'a>(fields: impl IntoIterator<Item = &'a Array>, at: usize, out: &mut Vec<u8>) {
    for (nth, field) in fields.into_iter().enumerate() {
        out.extend_from_slice(if nth == 0 { b"" } else { b"," });
        match field {
            Array::Values(values) => number_bare(values, at, out),
            Array::Lists { of: Lists::Text, offsets, content } => cell(text_at(offsets, content, at), out),
            other => {
                let mut value = Vec::new();
                json(other, at, &mut value);
                cell(&value, out);
            }
        }
    }
    out.push(b'\n');
}

/// Adds a text as it stands between commas.
pub(super) fn cell(text: &[u8], out: &mut Vec<u8>) {
    if text.iter().any(|byte| b"\",\n\r".contains(byte)) {
        out.push(b'"');
        for &byte in text {
            out.extend_from_slice(if byte == b'"' { b"\"" } else { b"" });
            out.push(byte);
        }
        out.push(b'"');
    } else {
        out.extend_from_slice(text);
    }
}

fn list(content: &Array, places: core::ops::Range<usize>, out: &mut Vec<u8>) {
    out.push(b'[');
    for (nth, at) in places.enumerate() {
        out.extend_from_slice(if nth == 0 { b"" } else { b"," });
        json(content, at, out);
    }
    out.push(b']');
}

fn text(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for chunk in text.utf8_chunks() {
        let quoted = serde_json::Value::from(chunk.valid()).to_string();
        out.extend_from_slice(&quoted.as_bytes()[1..quoted.len() - 1]);
        for byte in chunk.invalid() {
            written(write!(out, "\\udc{byte:02x}"));
        }
    }
    out.push(b'"');
}

fn written(done: std::io::Result<()>) {
    done.expect("memory takes everything");
}

/// The bytes of the text at a place.
fn text_at<'a>(offsets: &[i64], content: &'a Array, at: usize) -> &'a [u8] {
    let Array::Values(values) = content else { unreachable!("a text has bytes") };
    let place = |at: usize| usize::try_from(offsets[at]).expect("offsets do not fall below 0");
    &values.as_bytes()[place(at)..place(at + 1)]
}

fn number(values: &Values, at: usize, out: &mut Vec<u8>) {
    let is_none = values.float(at).is_some_and(|float| !float.is_finite());
    out.extend_from_slice(if is_none { b"\"" } else { b"" });
    number_bare(values, at, out);
    out.extend_from_slice(if is_none { b"\"" } else { b"" });
}

/// Adds a number in as few digits as tell it from all others.
fn number_bare(values: &Values, at: usize, out: &mut Vec<u8>) {
    written(match values.float(at) {
        Some(f64::INFINITY) => write!(out, "Infinity"),
        Some(f64::NEG_INFINITY) => write!(out, "-Infinity"),
        _ => write!(out, "{}", values.shown(at)),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(offsets: &[i64], bytes: &[u8]) -> Array {
        let content = Box::new(Array::Values(Values::U8(bytes.to_vec())));
        Array::Lists { of: Lists::Text, offsets: offsets.to_vec(), content }
    }

    #[test]
    fn all_kinds_of_values_are_told_as_json_and_as_csv() {
        let numbers = Array::Values(Values::F32(vec![0.1, f32::NAN, f32::NEG_INFINITY, 1e30]));
        let lists = Array::Lists {
            of: Lists::Items,
            offsets: vec![0, 2, 2, 3, 3],
            content: Box::new(Array::Values(Values::I8(vec![-1, 2, 3]))),
        };
        let pairs = Array::Repeated {
            count: 2,
            len: 4,
            content: Box::new(Array::Values(Values::Bool(vec![0, 1, 1, 1, 0, 0, 1, 0]))),
        };
        let words = texts(&[0, 1, 1, 5, 7], b"ab\",cd\n");
        let record = Array::Record {
            len: 4,
            fields: vec![("x".into(), numbers.clone()), ("y".into(), words.clone())],
        };
        let variant = Array::Variant {
            tags: vec![0, -1, 1, 0],
            index: vec![0, 0, 0, 1],
            contents: vec![
                Array::Values(Values::U64(vec![u64::MAX, 7])),
                Array::Values(Values::F64(vec![f64::INFINITY])),
            ],
        };
        let fields =
            [("n", &numbers), ("l", &lists), ("p", &pairs), ("w", &words), ("r", &record), ("v", &variant)];
        let lines = [
            (
                r#"{"n":0.1,"l":[-1,2],"p":[false,true],"w":"a","r":{"x":0.1,"y":"a"},"v":18446744073709551615}"#,
                "0.1,\"[-1,2]\",\"[false,true]\",a,\"{\"\"x\"\":0.1,\"\"y\"\":\"\"a\"\"}\",18446744073709551615\n",
            ),
            (
                r#"{"n":"NaN","l":[],"p":[true,true],"w":"","r":{"x":"NaN","y":""},"v":null}"#,
                "NaN,[],\"[true,true]\",,\"{\"\"x\"\":\"\"NaN\"\",\"\"y\"\":\"\"\"\"}\",null\n",
            ),
            (
                r#"{"n":"-Infinity","l":[3],"p":[false,false],"w":"b\",c","r":{"x":"-Infinity","y":"b\",c"},"v":"Infinity"}"#,
                "-Infinity,[3],\"[false,false]\",\"b\"\",c\",\"{\"\"x\"\":\"\"-Infinity\"\",\"\"y\"\":\"\"b\\\"\",c\"\"}\",\"\"\"Infinity\"\"\"\n",
            ),
            (
                r#"{"n":1e30,"l":[],"p":[true,false],"w":"d\n","r":{"x":1e30,"y":"d\n"},"v":7}"#,
                "1e30,[],\"[true,false]\",\"d\n\",\"{\"\"x\"\":1e30,\"\"y\"\":\"\"d\\n\"\"}\",7\n",
            ),
        ];
        for (at, (object_of, line_of)) in lines.into_iter().enumerate() {
            let (mut told, mut line) = (Vec::new(), Vec::new());
            object(fields, at, &mut told);
            let told = String::from_utf8(told).unwrap();
            assert_eq!(told, object_of);
            assert!(serde_json::from_str::<serde_json::Value>(&told).is_ok(), "{told}");
            csv(fields.map(|(_, field)| field), at, &mut line);
            assert_eq!(String::from_utf8(line).unwrap(), line_of);
        }
    }

    #[test]
    fn a_text_that_is_no_utf_8_is_told_from_all_others() {
        let words = texts(&[0, 2, 5, 9], b"a\xff\xef\xbf\xbd,\xe2\x82\"");
        let all = |tell: &dyn Fn(usize, &mut Vec<u8>)| {
            let mut out = Vec::new();
            (0..3).for_each(|at| tell(at, &mut out));
            out
        };
        assert_eq!(all(&|at, out| csv([&words], at, out)), b"a\xff\n\xef\xbf\xbd\n\",\xe2\x82\"\"\"\n");
        let json = String::from_utf8(all(&|at, out| json(&words, at, out))).unwrap();
        assert_eq!(json, "\"a\\udcff\"\"\u{fffd}\"\",\\udce2\\udc82\\\"\"");
    }
}
