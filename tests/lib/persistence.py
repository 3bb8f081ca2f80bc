"""What INFO says of snapshots, and the checksum of RDB files and payloads."""

from server import wait_for


def persistence(client):
    lines = bytes(client.command('INFO', 'persistence')).decode().split('\r\n')
    return dict(line.split(':', 1) for line in lines if ':' in line)


def wait_saved(client):
    wait_for(lambda: persistence(client)['rdb_bgsave_in_progress'] == '0')


def _bit_by_bit(crc):
    for _ in range(8):
        crc = crc >> 1 ^ (0x95ac9329ac4bc9b5 if crc & 1 else 0)
    return crc


_CRC_OF_BYTE = [_bit_by_bit(byte) for byte in range(256)]


def crc64(p):
    """CRC-64 of Jones, reflected."""
    crc, of_byte = 0, _CRC_OF_BYTE
    for byte in p:
        crc = crc >> 8 ^ of_byte[(crc ^ byte) & 255]
    return crc
