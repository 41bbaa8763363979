use super::Input;

fn receive(input: &mut Input, bytes: &[u8]) {
    input.room()[..bytes.len()].copy_from_slice(bytes);
    input.receive(bytes.len());
}

#[test]
fn what_was_looked_at_makes_room() {
    let mut input = Input::with_size(4);
    assert_eq!(input.room().len(), 4);
    receive(&mut input, b"abc");
    assert_eq!(input.held(), b"abc");
    assert_eq!(input.room().len(), 1);
    input.consume(2);
    assert_eq!(input.held(), b"c");
    assert_eq!(input.room().len(), 3);
    receive(&mut input, b"def");
    assert_eq!(input.held(), b"cdef");
    assert!(input.room().is_empty());
    input.consume(4);
    assert!(input.held().is_empty());
    assert_eq!(input.room().len(), 4);
}
