//! An implementation as it travels: what identifies it, and its text or binary. A function of the CPU does
//! not travel: the agent has it in its own program or plugins.

use super::Attribute;
use flash_backend::abi::{self, Attr, Implementation, Str};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// What an [`Implementation`] says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ImplementationImage<'a> {
    pub door: u32,
    pub kind: u32,
    pub priority: i32,
    pub kernel: Cow<'a, str>,
    pub name: Cow<'a, str>,
    pub target: Cow<'a, str>,
    pub descriptor: Cow<'a, str>,
    pub cpu_features: Cow<'a, str>,
    pub definition: Cow<'a, str>,
    pub attributes: Vec<Attribute<'a>>,
    pub payload: Cow<'a, [u8]>,
    /// It has a function of the CPU.
    pub runs_function: bool,
}

impl ImplementationImage<'static> {
    /// Of one that lives for ever.
    pub fn of(from: &'static Implementation) -> ImplementationImage<'static> {
        // SAFETY: an implementation's texts, attributes and payload live as long as it does.
        unsafe {
            let text = |text: &Str| Cow::Borrowed(text.as_str());
            let attributes = (0..from.attribute_count).map(|i| {
                let attribute = &*from.attributes.add(i);
                (text(&attribute.key), text(&attribute.value), attribute.required != 0)
            });
            let payload = match from.payload.is_null() || from.payload_len == 0 {
                true => &[][..],
                // The address of a function means nothing elsewhere.
                false if from.kind == abi::KIND_QUEUE_FN => &[][..],
                false => std::slice::from_raw_parts(from.payload, from.payload_len),
            };
            let end = std::mem::offset_of!(Implementation, definition) + size_of::<Str>();
            ImplementationImage {
                door: from.door,
                kind: from.kind,
                priority: from.priority,
                kernel: text(&from.kernel),
                name: text(&from.name),
                target: text(&from.target),
                descriptor: text(&from.descriptor),
                cpu_features: text(&from.cpu_features),
                // An older plugin's struct is shorter.
                definition: if (from.struct_size as usize) < end {
                    Cow::Borrowed("")
                } else {
                    text(&from.definition)
                },
                attributes: attributes.collect(),
                payload: Cow::Borrowed(payload),
                runs_function: from.share.is_some() || from.span.is_some() || from.kind == abi::KIND_QUEUE_FN,
            }
        }
    }
}

impl ImplementationImage<'_> {
    /// True if it has all that a device needs: its text or its binary. The payload of a function that is
    /// queued is an address, which never comes from another process.
    pub fn is_complete(&self) -> bool {
        !self.runs_function && self.kind != abi::KIND_QUEUE_FN && !self.payload.is_empty()
    }

    /// One that lives for ever, for a device that takes text or a binary.
    pub fn leak(&self) -> &'static Implementation {
        let text = |text: &str| Str::new(text.to_owned().leak());
        let attribute = |(key, value, required): &Attribute<'_>| Attr {
            key: text(key),
            value: text(value),
            required: u32::from(*required),
            reserved: 0,
        };
        let attributes: &'static [Attr] = self.attributes.iter().map(attribute).collect::<Vec<_>>().leak();
        let payload: &'static [u8] = self.payload.to_vec().leak();
        Box::leak(Box::new(Implementation {
            struct_size: size_of::<Implementation>() as u32,
            door: self.door,
            kind: self.kind,
            priority: self.priority,
            kernel: text(&self.kernel),
            name: text(&self.name),
            target: text(&self.target),
            descriptor: text(&self.descriptor),
            cpu_features: text(&self.cpu_features),
            attributes: attributes.as_ptr(),
            attribute_count: attributes.len(),
            share: None,
            span: None,
            payload: payload.as_ptr(),
            payload_len: payload.len(),
            definition: text(&self.definition),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_a_function_is_taken_from_no_other_process() {
        let text = |kind, payload: &'static [u8]| ImplementationImage {
            door: abi::DOOR_ITEM,
            kind,
            priority: 0,
            kernel: "".into(),
            name: "".into(),
            target: "".into(),
            descriptor: "".into(),
            cpu_features: "".into(),
            definition: "".into(),
            attributes: Vec::new(),
            payload: payload.into(),
            runs_function: false,
        };
        assert!(text(abi::KIND_INT_SRC, b"text").is_complete());
        assert!(!text(abi::KIND_INT_SRC, b"").is_complete());
        assert!(!text(abi::KIND_QUEUE_FN, b"no function").is_complete());
    }
}
