# SPDX-License-Identifier: BSD-2-Clause
"""Takes the kernel proper, an ELF file, out of a bzImage.

qemu boots it by the PVH entry. An emulated processor needs some 3 s only to unpack it by itself."""
import ctypes
import lzma
import struct

SETUP_SECTORS, PAYLOAD = 0x1F1, 0x248  # Documentation/arch/x86/boot.rst
XZ, ZSTD = b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"


def unpack(image):
    start = (image[SETUP_SECTORS] + 1) * 512
    offset, length = struct.unpack_from("<II", image, PAYLOAD)
    packed = image[start + offset:start + offset + length]
    if packed.startswith(XZ):
        unpacked = lzma.LZMADecompressor().decompress(packed)
    elif packed.startswith(ZSTD):
        unpacked = unpack_zstd(packed)
    else:
        raise ValueError("the kernel is packed with neither xz nor zstd: it begins with %r" %
                         packed[:6])
    if not unpacked.startswith(b"\x7fELF"):
        raise ValueError("the kernel is not an ELF file: it begins with %r" % unpacked[:4])
    return unpacked


def unpack_zstd(packed):
    library = ctypes.CDLL("libzstd.so.1")
    for function in (library.ZSTD_findFrameCompressedSize, library.ZSTD_decompress):
        function.restype = ctypes.c_size_t
    # After the frame comes the unpacked length, which the boot code reads there.
    length, = struct.unpack_from("<I", packed, len(packed) - 4)
    frame = library.ZSTD_findFrameCompressedSize(packed, ctypes.c_size_t(len(packed)))
    unpacked = ctypes.create_string_buffer(length)
    if library.ZSTD_decompress(unpacked, ctypes.c_size_t(length), packed,
                               ctypes.c_size_t(frame)) != length:
        raise ValueError("zstd cannot unpack the kernel")
    return unpacked.raw
