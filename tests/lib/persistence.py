"""What INFO says of snapshots, and the checksum of RDB files and payloads."""

from server import wait_for


def persistence(client):
    lines = bytes(client.command('INFO', 'persistence')).decode().split('\r\n')
    return dict(line.split(':', 1) for line in lines if ':' in line)


def wait_saved(client):
    wait_for(lambda: persistence(client)['rdb_bgsave_in_progress'] == '0')


def crc64(p):
    """Bit by bit: CRC-64 of Jones, reflected."""
    crc = 0
    for byte in p:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x95ac9329ac4bc9b5 if crc & 1 else 0)
    return crc
