//! Bytes and open-ended values in both forms: base64 and plain values in JSON; bytes, and strings of JSON, in
//! the binary form, which does not describe its own structure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::de::{DeserializeOwned, Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    match serializer.is_human_readable() {
        true => serializer.serialize_str(&BASE64.encode(bytes)),
        false => serializer.serialize_bytes(bytes),
    }
}

pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    match deserializer.is_human_readable() {
        true => deserializer.deserialize_str(Base64),
        false => deserializer.deserialize_byte_buf(Raw),
    }
}

struct Base64;

impl Visitor<'_> for Base64 {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes in base64")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Vec<u8>, E> {
        BASE64.decode(text).map_err(|e| E::custom(format!("expected bytes in base64, found text with: {e}")))
    }
}

struct Raw;

impl Visitor<'_> for Raw {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes")
    }

    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        Ok(bytes.to_vec())
    }

    fn visit_byte_buf<E: serde::de::Error>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
        Ok(bytes)
    }
}

/// Bytes that may be absent.
pub mod optional {
    use super::*;

    struct Borrowed<'a>(&'a [u8]);

    impl Serialize for Borrowed<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            super::serialize(self.0, serializer)
        }
    }

    struct Owned(Vec<u8>);

    impl<'de> Deserialize<'de> for Owned {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Owned, D::Error> {
            super::deserialize(deserializer).map(Owned)
        }
    }

    pub fn serialize<S: Serializer>(bytes: &Option<Vec<u8>>, serializer: S) -> Result<S::Ok, S::Error> {
        bytes.as_deref().map(Borrowed).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<u8>>, D::Error> {
        Ok(Option::<Owned>::deserialize(deserializer)?.map(|owned| owned.0))
    }
}

/// A value that is plain in JSON, and a string of JSON in the binary form.
pub mod text {
    use super::*;

    pub fn serialize<T: Serialize, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        match serializer.is_human_readable() {
            true => value.serialize(serializer),
            false => {
                let text = serde_json::to_string(value).map_err(serde::ser::Error::custom)?;
                serializer.serialize_str(&text)
            }
        }
    }

    pub fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        match deserializer.is_human_readable() {
            true => T::deserialize(deserializer),
            false => {
                let text = String::deserialize(deserializer)?;
                serde_json::from_str(&text).map_err(D::Error::custom)
            }
        }
    }
}

/// A type without its layout, which the first version of the format does not have.
pub mod element {
    use super::*;
    use flash_types::descriptor::ElementType;

    #[derive(Serialize, Deserialize)]
    #[serde(rename = "ElementType")]
    struct Written {
        name: String,
        size: usize,
        align: usize,
    }

    pub fn serialize<S: Serializer>(element: &ElementType, serializer: S) -> Result<S::Ok, S::Error> {
        let ElementType { name, size, align, .. } = element.clone();
        Written { name, size, align }.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ElementType, D::Error> {
        let Written { name, size, align } = Written::deserialize(deserializer)?;
        Ok(ElementType { name, size, align, layout: 0 })
    }
}
